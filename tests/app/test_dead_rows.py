"""Rows that a version does not show, found step by step, are those of the whole history."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from service import Service, serving
from shared_rows import shown_offsets
from table_made import TableMade
from upkeep_parts import dataset_of

from odf_node.service.history import versions as steps
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.compact_job import CompactPayload
from odf_storage.datasets.versions.versions import version_files
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.upkeep.compact import run_compaction

A, R, C, D = range(4)
THINGS = pa.schema([("name", pa.string()), ("size", pa.float64()), ("tags", pa.list_(pa.string()))])
WIDER = THINGS.append(pa.field("added", pa.int32()))


def thing(name: str | None, size: float | None = 1.0, **more: Any) -> dict[str, Any]:
    return {"name": name, "size": size, "tags": None, **more}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node") / "data") as service:
        yield service


@pytest.fixture
def http(service: Service) -> Iterator[httpx.Client]:
    with service.http(service.token()) as http:
        yield http


def read_offsets(http: httpx.Client, made: TableMade, view: str, block: str) -> list[int]:
    """By `GET read`, which computes from the whole history."""
    asked = {"projection": view, "columns": "offset", "format": "csv", "asAt": block}
    answer = http.get(f"/{made.entry.alias.name}/read", params=asked)
    assert answer.status_code == 200, answer.text
    return [int(line) for line in answer.text.split()[1:]]


def any_rows(chance: random.Random, columns: pa.Schema) -> tuple[list[dict[str, Any]], list[int]]:
    """Rows of few values: doubles, NaN, keys that move, rows that take back what is not there."""
    rows = [
        {
            "name": chance.choice(["a", "b", "", None]),
            "size": chance.choice([0.0, -0.0, float("nan"), None]),
            "tags": chance.choice([None, ["x", None]]),
        }
        | ({"added": chance.choice([None, 1])} if "added" in columns.names else {})
        for _ in range(chance.randint(1, 8))
    ]
    return rows, [chance.choice([A, A, A, R, C, D]) for _ in rows]


def reset(http: httpx.Client, made: TableMade, chance: random.Random) -> None:
    """To a block with data before the head."""
    blocks = data_blocks(made)
    kept = chance.choice(blocks[len(blocks) // 2 :])
    answer = http.post(f"/{made.entry.alias.name}/reset", params={"block": str(kept.hash)})
    assert answer.status_code == 200, answer.text
    made.blocks = made.blocks[: made.blocks.index(kept) + 1]
    made.offset = kept.event.new_data.offset_interval.end + 1
    schemas = sum(isinstance(each.event, SetDataSchema) for each in made.blocks)
    made.columns = WIDER if schemas > 1 else THINGS


def compact(made: TableMade, scratch: Path) -> None:
    dataset = dataset_of(made.stores, made.entry)
    done = run_compaction(dataset, CompactPayload(), made.stores, scratch, attempts=3)
    assert done.outcome == "updated"
    blocks = [block for page in dataset.pages(upto=dataset.head()) for block in page]
    missing = len(made.blocks) - len(blocks)
    made.blocks = [blocks[0]] * missing + blocks  # as many as before: time goes on with each


def data_blocks(made: TableMade) -> list[Any]:
    return [block for block in made.blocks if getattr(block.event, "new_data", None)]


@pytest.mark.parametrize("seed", range(2))
def test_after_each_step_the_rows_are_those_of_the_whole_history(service, http, tmp_path, seed):
    chance = random.Random(seed)
    key = [("name",), ("name", "size")][seed % 2]
    made = TableMade(service.node.stores, f"kamu/random{seed}", THINGS, key=key)
    made.add(*any_rows(chance, made.columns))
    for step in range(6):
        for _ in range(chance.randint(1, 3)):
            made.add(*any_rows(chance, made.columns))
        if step == 1:
            made.declare(WIDER)
            made.add(*any_rows(chance, made.columns))
        if step == 3:
            reset(http, made, chance)
        if step == 4:
            compact(made, tmp_path)
        blocks = data_blocks(made)
        for view, schema in (("facts", "default"), ("state", "state")):
            some = [chance.randrange(len(blocks))] if step % 2 else []
            for number in (*some, len(blocks) - 1):
                shown = shown_offsets(http, f"random{seed}", schema, version=number)
                assert shown == read_offsets(http, made, view, str(blocks[number].hash))


def opened_by(made: TableMade, monkeypatch: Any, work: Any) -> list[int]:
    """Numbers of the slices that are opened meanwhile."""
    names = {part.physical_hash: at for at, part in enumerate(made.parts)}
    opened: set[int] = set()
    plain = Dataset.open_whole

    def open_whole(self: Any, kind: ObjectKind, name: Any, *more: Any) -> Any:
        opened.add(names[name])
        return plain(self, kind, name, *more)

    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "open_whole", open_whole)
        work()
    return sorted(opened)


@pytest.mark.parametrize("schema", ["default", "state"])
def test_a_new_block_costs_itself_and_the_slices_that_lose_rows(service, http, monkeypatch, schema):
    name = f"cost{schema}"
    made = TableMade(service.node.stores, f"kamu/{name}", THINGS, key=["name"])
    for number in range(12):
        made.add([thing(f"a{number}"), thing(f"b{number}")])
    made.add([thing("a5")], [R])

    def ask() -> list[int]:
        return shown_offsets(http, name, schema)

    ask()
    behind = [13] if schema == "default" else []  # adds only, which takes no step of facts
    for rows, operations, touched in (
        ([thing("c")], [A], []),
        ([thing("a3"), thing("a3", 2.0), thing("b7")], [C, D, R], [3, 7, *behind]),
        ([thing("a3", 2.0)], [R], [14]),
    ):
        made.add(rows, operations)
        new = len(made.parts) - 1
        assert opened_by(made, monkeypatch, ask) == sorted({*touched, new})
        assert opened_by(made, monkeypatch, ask) == []
    view = {"default": "facts"}.get(schema, schema)
    assert ask() == read_offsets(http, made, view, made.head)


def test_rows_that_are_only_added_cost_no_step(service, http, monkeypatch):
    made = TableMade(service.node.stores, "kamu/calm", THINGS)
    made.add([thing("a"), thing("b")])
    made.add([thing("a")], [R])
    assert shown_offsets(http, "calm", "default") == [1]
    made.add([thing("c")])
    monkeypatch.setattr(steps.Steps, "standing", None)
    assert shown_offsets(http, "calm", "default") == [1, 3]


def test_an_index_that_is_damaged_is_made_anew(service, http):
    made = TableMade(service.node.stores, "kamu/damaged", THINGS)
    made.add([thing("a"), thing("b")])
    files = version_files(service.node.stores.projections, made.entry.id)
    for number, shown in enumerate(([1, 3], [3, 5])):
        made.add([thing("ab"[number]), thing("c")], [R, A])
        assert shown_offsets(http, "damaged", "default") == shown
        for info in list(files.list("standing/facts/live")):
            if not info.key.endswith("state.json"):
                files.put(info.key, [b"other"])


def test_without_an_index_the_whole_history_is_read(tmp_path, monkeypatch):
    with serving(tmp_path / "data", dead_rows_index_rows=3) as service:
        made = TableMade(service.node.stores, "kamu/large", THINGS)
        with service.http(service.token()) as http:
            made.add([thing("a"), thing("b")])
            made.add([thing("a")], [R])
            assert shown_offsets(http, "large", "default") == [1]
            made.add([thing("b")], [R])
            ask = lambda: shown_offsets(http, "large", "default")  # noqa: E731
            assert opened_by(made, monkeypatch, ask) == [0, 1, 2]
            assert ask() == []
