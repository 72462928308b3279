"""Rows with a value, over HTTP: what is found, what is opened, what is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kartothek_published import A2, A, Growing
from service import Service, serving
from sliced import SCHEMA, TEXTS, learned, random_slices, view_of_slices

from odf_node.app.service.reader_process.lookup_rows import looked_up
from odf_node.protocol.kartothek.predicates import mask_of
from odf_node.storage.datasets.pruning.filters import Filter, equal
from odf_node.storage.datasets.pruning.predicates import predicate_of
from odf_node.storage.datasets.read.narrowed import NOTHING_KNOWN, Known


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


def test_a_filtered_read_opens_only_slices_that_can_hold_the_rows(
    service: Service, many: Growing
) -> None:
    def lines(**params: Any) -> tuple[int, str]:
        answer = ask(service, "/many/read", **params)
        assert answer.status_code == 200, answer.text
        return len(answer.content.splitlines()), answer.headers["odf-slices"]

    total = len(many.parts)
    everything = 2 * 30 + total - 30
    assert lines() == (everything, f"{total}/{total}")
    assert lines(filter="pop:ge:128")[0] == 2
    assert lines(filter="pop:ge:128") == (2, f"2/{total}")
    assert lines(filter=["pop:ge:128", "offset:lt:58"], projection="facts") == (1, f"2/{total}")
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

        def found(filters: tuple[Filter, ...], what: Known, view: Any = view) -> list[str]:
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
