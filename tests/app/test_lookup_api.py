"""Rows with a value, over HTTP: what is found, what is opened, what is refused."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from click.testing import CliRunner
from kartothek_published import A2, A, Growing
from service import Service, serving
from sliced import SCHEMA, TEXTS, learned, random_slices, view_of_slices

from odf_node.cli.main import main
from odf_node.service.reader_process.work import looked_up
from odf_node.service.readers import pool
from odf_node.service.readers.messages import MAX_FILES, Need, read_needs
from odf_protocol.kartothek.predicates import mask_of
from odf_storage.datasets.kartothek.index_place import index_store
from odf_storage.datasets.kartothek.own_index import refresh_own_index
from odf_storage.datasets.pruning.bounds import predicate_of
from odf_storage.datasets.pruning.filters import Filter, equal
from odf_storage.datasets.read.scan import NOTHING_KNOWN, KnownBounds
from odf_storage.datasets.rewrite.compact import reset
from odf_storage.stores.objects.layout import dataset_folder


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(tmp_path_factory.mktemp("lookup"), max_tail_bytes=4096) as service:
        yield service


@pytest.fixture(scope="module")
def towns(service: Service) -> Growing:
    made = Growing(service.node.stores)
    for rows in A2:
        made.add(rows)
    return made


@pytest.fixture(scope="module")
def many(service: Service) -> Growing:
    made = Growing(service.node.stores, "kamu/many")
    for number in range(30):
        made.add([(A, f"c{number:02}", number), (A, None, number + 100)])
    return made


def ask(service: Service, path: str, **params: Any) -> Any:
    with service.http(service.token()) as client:
        return client.get(path, params=params)


def offsets(answer: Any) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [row["offset"] for row in answer.json()["data"]]


def test_all_rows_of_a_value_are_found_or_what_stands_of_them(
    service: Service, towns: Growing
) -> None:
    def found(**more: Any) -> list[int]:
        return offsets(ask(service, "/towns/lookup", column="city", value="b", **more))

    assert found() == [1, 3, 4]
    assert found(state=True) == [4]
    assert found(blockHash=str(towns.blocks[2].hash)) == [1]
    assert found(limit=2) == [1, 3]
    assert found(limit=0) == []
    assert offsets(ask(service, "/towns/lookup", column="city", value="zzz")) == []
    assert offsets(ask(service, "/towns/lookup", column="city", value="a", state=True)) == []
    both = {"column": ["city", "pop"], "value": ["b", "2000"]}
    assert offsets(ask(service, "/towns/lookup", **both)) == [1, 3]


def test_rows_are_written_as_a_tail_writes_them(service: Service, towns: Growing) -> None:
    given = {"dataFormat": "JsonSoA", "schemaFormat": "ArrowJson"}
    answer = ask(service, "/towns/lookup", column="city", value="c", **given)
    whole = ask(service, "/towns/tail", skip=4, limit=1, **given)
    assert answer.json() == whole.json()
    assert answer.headers["odf-block"] == towns.head
    assert int(answer.headers["content-length"]) == len(answer.content)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"column": "mayor", "value": "b"}, "UnknownColumn"),
        ({"column": "pop", "value": "many"}, "MalformedFilter"),
        ({"column": "pop", "value": "1" * 30}, "MalformedFilter"),
        ({"column": ["city", "pop"], "value": "b"}, "MalformedFilter"),
        ({"column": "city", "value": "b", "blockHash": "f1620"}, "MalformedHash"),
        ({"column": "city", "value": "b", "dataFormat": "xml"}, ""),
        ({"column": "city"}, ""),
        ({"column": "city", "value": "b", "colour": "red"}, "UnknownParameter"),
    ],
)
def test_what_makes_no_sense_is_refused(
    service: Service, towns: Growing, params: dict[str, Any], error: str
) -> None:
    answer = ask(service, "/towns/lookup", **params)
    assert answer.status_code == 400, answer.text
    assert answer.json()["type"].rpartition(":")[2].startswith(error)


def test_hostile_values_are_values(service: Service, towns: Growing) -> None:
    for value in ("", "b' OR 1=1", "%00", "\x00", "../../etc/passwd", "\u202e", "*", "b\n"):
        assert offsets(ask(service, "/towns/lookup", column="city", value=value)) == []


def test_a_block_of_another_dataset_is_not_found(
    service: Service, towns: Growing, many: Growing
) -> None:
    asked = {"column": "city", "value": "b", "blockHash": many.head}
    assert ask(service, "/towns/lookup", **asked).status_code == 404


def test_a_look_up_of_too_much_is_refused(service: Service) -> None:
    made = Growing(service.node.stores, "kamu/long")
    made.add([(A, "x" * 100, 1)] * 50)
    asked = {"column": "city", "value": "x" * 100}
    assert ask(service, "/long/lookup", **asked).status_code == 413
    assert ask(service, "/long/lookup", limit=10**6, **asked).status_code == 413
    assert len(offsets(ask(service, "/long/lookup", limit=10, **asked))) == 10


def test_a_second_look_up_opens_only_slices_that_can_hold_the_value(
    service: Service, many: Growing
) -> None:
    first = ask(service, "/many/lookup", column="city", value="c07")
    again = ask(service, "/many/lookup", column="city", value="c09")
    assert (offsets(first), first.headers["odf-slices"]) == ([14], "30/30")
    assert (offsets(again), again.headers["odf-slices"]) == ([18], "1/30")
    many.add([(A, "c09", 1)])
    newer = ask(service, "/many/lookup", column="city", value="c09")
    assert (offsets(newer), newer.headers["odf-slices"]) == ([18, 60], "2/31")
    earlier = {"blockHash": str(many.blocks[2].hash)}
    assert (
        ask(service, "/many/lookup", column="city", value="c09", **earlier).headers["odf-slices"]
        == "0/1"
    )
    with service.http() as client:
        told = client.get("/system/metrics").text
    assert 'odf_filtered_slices_total{outcome="left_out"}' in told


def test_a_look_up_in_many_slices_asks_for_many_files_at_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def counted(raw: bytes) -> list[Need]:
        asked.append(len(found := read_needs(raw)))
        return found

    made = Growing(service.node.stores, "kamu/hundred")
    for number in range(MAX_FILES + 6):
        made.add([(A, f"c{number}", number)])
    monkeypatch.setattr(pool, "read_needs", counted)
    assert offsets(ask(service, "/hundred/lookup", column="city", value="c66")) == [66]
    assert asked == [MAX_FILES, 6]


def test_a_filtered_read_opens_only_slices_that_can_hold_the_rows(
    service: Service, many: Growing
) -> None:
    def lines(**params: Any) -> tuple[int, str]:
        answer = ask(service, "/many/read", **{"projection": "changelog", **params})
        assert answer.status_code == 200, answer.text
        return len(answer.content.splitlines()), answer.headers["odf-slices"]

    total = len(many.parts)
    everything = 2 * 30 + total - 30
    assert lines() == (everything, f"{total}/{total}")
    assert lines(filter="pop:ge:128")[0] == 2
    assert lines(filter="pop:ge:128") == (2, f"2/{total}")
    # no row was taken back, so conditions on offsets leave slices out of facts, too
    assert lines(filter=["pop:ge:128", "offset:lt:58"], projection="facts") == (1, f"1/{total}")
    assert lines(filter="city:null") == (30, f"{total}/{total}")
    assert lines(filter="city:in:c01,c02", columns="pop", limit=1)[0] == 1
    assert ask(service, "/many/read", filter="city:like:c").status_code == 400
    assert ask(service, "/many/read", filter="mayor:eq:c").status_code == 400


def test_a_dataset_without_rows_has_no_value(service: Service) -> None:
    Growing(service.node.stores, "kamu/nothing")
    answer = ask(service, "/nothing/lookup", column="city", value="b")
    assert (offsets(answer), answer.headers["odf-slices"]) == ([], "0/0")


def plain(rows: list[dict[str, Any]]) -> list[str]:
    return [repr(row) for row in rows]


@pytest.mark.parametrize("seed", range(2))
def test_what_stands_of_a_value_is_what_stands_of_all_with_that_value(seed: int) -> None:
    chance = random.Random(seed)
    for key in ((), ("city",)):
        view, _ = view_of_slices(random_slices(chance), key=key)
        known = learned(view)

        def found(filters: tuple[Filter, ...], what: KnownBounds, view: Any = view) -> list[str]:
            table, _ = looked_up(
                view, filters, state=True, limit=1000, max_bytes=1 << 20, known=what
            )
            return plain(table.to_pylist())

        everything, _ = looked_up(
            view,
            (Filter("offset", "notnull"),),
            state=True,
            limit=1000,
            max_bytes=1 << 20,
            known=NOTHING_KNOWN,
        )
        columns = {name: everything[name].combine_chunks() for name in SCHEMA.names}
        for name, text in ((each, text) for each in TEXTS for text in TEXTS[each]):
            filters = equal([name], [text])
            mask = mask_of(predicate_of(filters, SCHEMA), columns.__getitem__, everything.num_rows)
            wanted = plain(everything.filter(mask).to_pylist())
            assert found(filters, known) == wanted
            if name in key:
                assert found(filters, NOTHING_KNOWN) == wanted


@pytest.fixture(scope="module")
def indexed(service: Service) -> Growing:
    """60 slices; three hold Oslo, all hold values on both sides of it."""
    made = Growing(service.node.stores, "kamu/indexed")
    for number in range(60):
        rows = [(A, "Aachen", 1), (A, "Zwolle", 2), (A, None, number)]
        made.add([*rows, (A, "Oslo", number)] if number in (3, 27, 59) else rows)
    refresh_own_index(made.dataset, made.stores.projections, ["city", "pop"])
    return made


def test_an_index_leaves_out_all_slices_without_the_value(
    service: Service, indexed: Growing
) -> None:
    def found(path: str = "lookup", **params: Any) -> tuple[int, str]:
        answer = ask(service, f"/indexed/{path}", **params)
        assert answer.status_code == 200, answer.text
        rows = answer.json()["data"] if path == "lookup" else answer.text.splitlines()
        return len(rows), answer.headers["odf-slices"]

    oslo = {"column": "city", "value": "Oslo"}
    assert found(**oslo) == (3, "3/60")
    assert found(**oslo, state=True) == (3, "3/60")
    assert found(column="city", value="Paris") == (0, "0/60")
    assert found("read", filter=["city:eq:Oslo", "pop:gt:20"]) == (2, "2/60")
    assert found("read", filter="city:in:Oslo,Paris") == (3, "3/60")
    assert found("read", filter="city:ne:Oslo") == (120, "60/60")
    assert found("read", filter="city:null") == (60, "60/60")
    pinned = str(indexed.blocks[30].hash)
    assert found(**oslo, blockHash=pinned)[0] == 2


def test_an_index_that_is_behind_is_slow_and_never_wrong(
    service: Service, indexed: Growing
) -> None:
    oslo = {"column": "city", "value": "Oslo", "limit": 1000}
    indexed.add([(A, "Oslo", 5), (A, "Aachen", 6), (A, "Zwolle", 6)])
    newer = ask(service, "/indexed/lookup", **oslo)
    assert (len(offsets(newer)), newer.headers["odf-slices"]) == (4, "4/61")
    refresh_own_index(indexed.dataset, indexed.stores.projections, ["city", "pop"])
    assert ask(service, "/indexed/lookup", **oslo).headers["odf-slices"] == "4/61"


def test_an_index_of_another_history_or_a_damaged_one_is_not_used(service: Service) -> None:
    made = Growing(service.node.stores, "kamu/other")
    for number in range(3):
        made.add([(A, f"c{number}", 1)])
    refresh_own_index(made.dataset, made.stores.projections, ["city"])
    asked = {"column": "city", "value": "c1"}
    store = index_store(made.stores.projections, made.entry.id)
    [key] = [info.key for info in store.list(dataset_folder(made.entry.id)) if "city" in info.key]
    assert ask(service, "/other/lookup", **asked).headers["odf-slices"] == "1/3"
    store.put(key, [b"PAR1 no file PAR1"])
    damaged = ask(service, "/other/lookup", column="city", value="c2")
    # one slice was read before, so its bounds are known
    assert (offsets(damaged), damaged.headers["odf-slices"]) == ([2], "2/3")
    store.delete([key])
    assert offsets(ask(service, "/other/lookup", column="city", value="c0")) == [0]

    state = f"{dataset_folder(made.entry.id)}.by-dataset-metadata.json"
    raw = store.read(state, most=1 << 20)
    assert raw is not None
    foreign = raw.raw.replace(made.head.encode(), str(made.blocks[0].hash).encode()[:-1] + b"0")
    store.put(state, [foreign])
    assert offsets(ask(service, "/other/lookup", **asked)) == [1]
    store.put(state, [b"{"])
    assert offsets(ask(service, "/other/lookup", **asked)) == [1]


def test_a_history_that_was_replaced_is_not_looked_up_in_the_index_of_the_old_one(
    service: Service,
) -> None:
    made = Growing(service.node.stores, "kamu/replaced")
    made.add([(A, "old", 1)])
    short = made.blocks[:2]
    refresh_own_index(made.dataset, made.stores.projections, ["city"])
    reset(made.stores, made.entry, target=short[-1].hash)
    made.blocks, made.offset = list(short), 0
    made.add([(A, "new", 1)])
    answer = ask(service, "/replaced/lookup", column="city", value="new")
    assert (offsets(answer), answer.headers["odf-slices"]) == ([0], "1/1")


def test_the_command_prints_the_rows_that_have_the_values(service: Service, towns: Growing) -> None:
    url, token = f"{service.url}/towns", service.token()

    def run(*args: str) -> Any:
        return CliRunner().invoke(main, ["lookup", url, *args, "--token", token])

    told = run("city=b", "--json")
    assert [row["offset"] for row in json.loads(told.stdout)["data"]] == [1, 3, 4], told.output
    stands = run("city=b", "pop=2500", "--state", "--limit", "1")
    assert [json.loads(text)["offset"] for text in stands.stdout.splitlines()] == [4]
    earlier = run("city=b", "--at", str(towns.blocks[2].hash))
    assert len(earlier.stdout.splitlines()) == 1
    assert run("mayor=b").exit_code == 2
    assert run("city").exit_code == 2
