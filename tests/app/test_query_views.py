"""What stands of a dataset, asked for by SQL: state and facts as `read` computes them."""

from __future__ import annotations

import io
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from service import NOON, SCHEMA, Chain, described, seeded, serving

from odf_protocol.columns.arrow_digest import digest_of
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    DataSlice,
    OffsetInterval,
    SetDataSchema,
)
from odf_protocol.metadata.sources import MergeStrategySnapshot, ReadStepNdJson
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKind

KEYED = AddPushSource(
    source_name="default",
    read=ReadStepNdJson(),
    merge=MergeStrategySnapshot(primary_key=("city",)),
)


def _slice(start: int, rows: list[tuple[int, str, int | None]]) -> bytes:
    utc = pa.timestamp("ms", "UTC")
    table = pa.table(
        {
            "offset": pa.array(range(start, start + len(rows)), pa.int64()),
            "op": pa.array([op for op, _, _ in rows], pa.int32()),
            "system_time": pa.array([NOON.millis] * len(rows), utc),
            "event_time": pa.array([NOON.millis] * len(rows), utc),
            "city": pa.array([city for _, city, _ in rows]),
            "population": pa.array([people for _, _, people in rows], pa.int64()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _add(chain: Chain, rows: list[tuple[int, str, int | None]]) -> Chain:
    start = chain.state.next_offset
    content = _slice(start, rows)
    piece = DataSlice(
        logical_hash=digest_of(pq.ParquetFile(io.BytesIO(content))).finish(),
        physical_hash=Multihash.of(content),
        offset_interval=OffsetInterval(start=start, end=start + len(rows) - 1),
        size=len(content),
    )
    chain.objects[ObjectKind.DATA, piece.physical_hash] = content
    return chain.add(
        AddData(prev_offset=chain.state.last_offset, new_data=piece, new_watermark=NOON)
    )


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("views") / "node") as service:
        yield service


@pytest.mark.parametrize("seed", range(6))
def test_views_have_the_rows_of_the_projections_of_read(service, seed):
    chosen = random.Random(seed)
    chain = seeded().add(described(), KEYED, SetDataSchema(schema=SCHEMA))
    for _ in range(3):
        rows = [
            (
                chosen.choice([0, 0, 0, 1, 2, 3]),
                f"c{chosen.randrange(3)}",
                chosen.choice([1, 2, None]),
            )
            for _ in range(8)
        ]
        _add(chain, rows)
    service.keep(chain, f"kamu/views{seed}")
    with service.http() as client:
        for view in ("state", "facts"):
            query = f'select * from "views{seed}@{view}" order by "offset"'
            asked = client.post("/query", json={"query": query}).json()["output"]["data"]
            params = {"projection": view, "format": "json"}
            assert asked == client.get(f"/views{seed}/read", params=params).json()


def test_a_dataset_without_a_key_has_no_state(service):
    service.keep(seeded().add(SetDataSchema(schema=SCHEMA)).add_rows(2), "kamu/keyless")
    with service.http() as client:
        refused = client.post("/query", json={"query": 'select * from "keyless@state"'})
    assert refused.status_code == 400
    assert "no merge strategy of the dataset has a primary key" in refused.json()["message"]


def test_rows_of_slices_before_a_column_have_nulls_in_it(service):
    narrow = SetDataSchema(schema=type(SCHEMA)(fields=SCHEMA.fields[:5]))
    chain = seeded().add(narrow)
    content = pq.read_table(io.BytesIO(_slice(0, [(0, "old", 1)]))).drop_columns(["population"])
    sink = io.BytesIO()
    pq.write_table(content, sink)
    raw = sink.getvalue()
    piece = DataSlice(
        logical_hash=digest_of(pq.ParquetFile(io.BytesIO(raw))).finish(),
        physical_hash=Multihash.of(raw),
        offset_interval=OffsetInterval(start=0, end=0),
        size=len(raw),
    )
    chain.objects[ObjectKind.DATA, piece.physical_hash] = raw
    chain.add(AddData(prev_offset=None, new_data=piece, new_watermark=NOON))
    chain.add(SetDataSchema(schema=SCHEMA))
    _add(chain, [(0, "new", 2)])
    service.keep(chain, "kamu/widened")
    with service.http() as client:
        query = 'select city, population from widened order by "offset"'
        data = client.post("/query", json={"query": query}).json()["output"]["data"]
    assert data == [{"city": "old", "population": None}, {"city": "new", "population": 2}]
