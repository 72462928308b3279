"""The first read of a dataset of many slices looks at one column of each, many files at once; its
rows are those that reading everything gives."""

from __future__ import annotations

import asyncio
import io
import json
import random
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing
from service import NOON, SCHEMA, Chain, seeded, serving

from odf_node.service.readers import pool
from odf_node.service.readers.messages import (
    MAX_FILES,
    MAX_FILES_BYTES,
    Need,
    needs,
    read_needs,
    windows,
)
from odf_node.service.readers.pool import ReaderAnswer
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.datasets.read.read import RowsRequest, reading
from odf_storage.datasets.read.rows import Projection
from odf_storage.datasets.read.view import view_of_dataset
from odf_storage.stores.ports.values import ObjectKey

SLICES = 2 * MAX_FILES + 7


def grown(chain: Chain, rows: list[tuple[int, str]]) -> None:
    """A slice of these operations and cities."""
    first, count = chain.state.next_offset, len(rows)
    utc = pa.timestamp("ms", "UTC")
    table = pa.table(
        {
            "offset": pa.array(range(first, first + count), pa.int64()),
            "op": pa.array([op for op, _ in rows], pa.int32()),
            "system_time": pa.array([NOON.millis] * count, utc),
            "event_time": pa.array([NOON.millis] * count, utc),
            "city": pa.array([city for _, city in rows]),
            "population": pa.array([1] * count, pa.int64()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    chain.add_slice(sink.getvalue(), count)


def many(changes: int, seed: int) -> Chain:
    """A chain of many slices, in some of which rows of earlier ones are taken back."""
    choice = random.Random(seed)
    chain = seeded().add(SetDataSchema(schema=SCHEMA))
    changed = set(choice.sample(range(1, SLICES), changes))
    cities: list[str] = []
    for number in range(SLICES):
        rows = [(0, f"c{number}")]
        if number in changed:
            old = choice.choice(cities)
            rows += [(1, old)] if choice.random() < 0.5 else [(2, old), (3, f"{old} anew")]
        cities.append(f"c{number}")
        grown(chain, rows)
    return chain


@pytest.mark.parametrize(("changes", "seed"), [(0, 1), (1, 2), (20, 3)])
def test_rows_of_many_slices_are_those_of_reading_everything(tmp_path, changes, seed) -> None:
    chain = many(changes, seed)
    with serving(tmp_path) as service, service.http() as client:
        client.timeout = 300
        service.keep(chain)
        dataset = service.node.stores.dataset(DatasetRef(id=chain.id))
        with reading(view_of_dataset(dataset), RowsRequest(projection=Projection.FACTS)) as (
            _,
            batches,
        ):
            whole = [row["offset"] for batch in batches for row in batch.to_pylist()]
        for skip, limit in ((0, 1), (30, 90), (0, None)):
            asked = {"skip": skip} if limit is None else {"skip": skip, "limit": limit}
            answer = client.get("/foo/read", params=asked).raise_for_status()
            found = [json.loads(line)["offset"] for line in answer.text.splitlines()]
            assert found == whole[skip : None if limit is None else skip + limit]


def test_a_look_at_many_slices_asks_for_many_files_at_once(tmp_path, monkeypatch) -> None:
    asked: list[int] = []

    def counted(raw: bytes) -> list[Need]:
        found = read_needs(raw)
        asked.append(len(found))
        return found

    monkeypatch.setattr(pool, "read_needs", counted)
    with serving(tmp_path) as service, service.http() as client:
        client.timeout = 300
        service.keep(many(0, 4))
        client.get("/foo/read", params={"limit": 1}).raise_for_status()
    looked = [each for each in asked if each > 1 and each != SLICES]  # all: that they are there
    assert looked == [MAX_FILES, MAX_FILES, SLICES - 2 * MAX_FILES]


def test_a_missing_slice_is_an_error_of_the_read(tmp_path) -> None:
    chain = many(0, 5)
    (kind, name), *_ = list(chain.objects)[SLICES // 2 :]
    with serving(tmp_path) as service, service.http() as client:
        client.timeout = 300
        service.keep(chain)
        service.node.stores.objects.local_paths.path(ObjectKey(chain.id, kind, name)).unlink()
        answer = client.get("/foo/read")
        assert answer.status_code == 500
        assert answer.json()["type"].endswith(":ObjectDamaged")


def test_files_are_asked_for_in_windows_of_a_number_and_of_bytes() -> None:
    small = [Need("data", str(number), 1) for number in range(MAX_FILES + 1)]
    large = [Need("data", f"large {number}", MAX_FILES_BYTES) for number in range(3)]
    found = list(windows([*small, *large]))
    assert [len(each) for each in found] == [MAX_FILES, 2, 1, 1]
    assert [need for window in found for need in window] == [*small, *large]


def test_a_reader_that_asks_for_too_many_files_gets_none() -> None:
    opened: list[str] = []

    class Objects:
        def open_whole(self, kind: object, name: object) -> io.BytesIO:
            opened.append(str(name))
            return io.BytesIO()

    answer = ReaderAnswer.__new__(ReaderAnswer)
    answer._objects = Objects()  # type: ignore[assignment]
    some = [Need("data", str(number)) for number in range(MAX_FILES + 1)]
    with refusing("ReaderBrokeProtocol"):
        asyncio.run(answer._hand_over(needs(some)))
    assert not opened


def test_files_that_were_opened_are_closed_if_one_of_them_cannot_be_opened(tmp_path) -> None:
    files = []

    class Objects:
        def open_index(self, key: str) -> object:
            if key == "3":
                raise OSError("no such place")
            files.append((tmp_path / key).open("w+b"))
            return files[-1]

    async def run() -> None:
        answer = ReaderAnswer.__new__(ReaderAnswer)
        answer._objects, answer._threads = Objects(), None  # type: ignore[assignment]
        with ExitStack() as opened:
            await answer._opened([Need("index", str(number)) for number in range(6)], opened)

    with pytest.raises(OSError, match="no such place"):
        asyncio.run(run())
    assert files
    assert all(each.closed for each in files)
