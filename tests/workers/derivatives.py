"""Roots with rows and derivatives of them, made without Spark."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    DatasetKind,
    MetadataEvent,
    Seed,
    SetDataSchema,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.info import chunks
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind, Visibility

START = Instant.parse("2024-01-01T00:00:00Z")
MILLIS = pa.timestamp("ms", "UTC")
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        pa.field("system_time", MILLIS, nullable=False),
        pa.field("event_time", MILLIS, nullable=False),
        pa.field("city", pa.string()),
        pa.field("n", pa.int64()),
    ]
)
Row = tuple[str, str, int]
"""Event time, city, number."""


def moment(seconds: int) -> Instant:
    """So many seconds after the start of everything."""
    return Instant(START.ns + seconds * 1_000_000_000)


def created(
    stores: Stores, name: str, events: Sequence[MetadataEvent] = (), *, kind: DatasetKind
) -> Dataset:
    dataset = DatasetId(name.encode().ljust(32, b"."))
    seed = Seed(dataset_id=dataset, dataset_kind=kind)
    blocks, _ = author(EMPTY, [seed, *events], system_time=START)
    entry = DatasetEntry(
        id=dataset,
        alias=DatasetAlias.parse(f"kamu/{name}"),
        kind=kind,
        visibility=Visibility.PRIVATE,
        created_at=START,
    )
    made = stores.create_dataset(entry, blocks)
    inputs = [i for i in made.state().declared_inputs or () if i is not None]
    stores.registry.set_inputs(dataset, inputs)
    return made


def root(stores: Stores, name: str, *, schema: pa.Schema | None = SCHEMA) -> Dataset:
    """A root that has a schema and no rows yet."""
    events = [] if schema is None else [SetDataSchema(schema=from_arrow(schema))]
    return created(stores, name, events, kind=DatasetKind.Root)


def transform(inputs: Sequence[Dataset], *queries: str, engine: str = "datafusion") -> SetTransform:
    """Steps are called `step1`, `step2`, …; inputs by the names of their datasets."""
    named = [SqlQueryStep(alias=f"step{n}", query=q) for n, q in enumerate(queries[:-1], 1)]
    return SetTransform(
        inputs=tuple(
            TransformInput(dataset_ref=DatasetRef(id=one.id), alias=str(one.entry.alias.name))
            for one in inputs
        ),
        transform=TransformSql(engine=engine, queries=(*named, SqlQueryStep(query=queries[-1]))),
    )


def derivative(
    stores: Stores, name: str, inputs: Sequence[Dataset], *queries: str, engine: str = "datafusion"
) -> Dataset:
    event = transform(inputs, *queries, engine=engine)
    return created(stores, name, [event], kind=DatasetKind.Derivative)


def commit(dataset: Dataset, *events: MetadataEvent, at: int) -> None:
    """Append events at a moment."""
    state = dataset.state()
    blocks, _ = author(state, events, system_time=moment(at))
    assert state.head is not None
    dataset.commit(blocks, expected=state.head)


def add_rows(
    stores: Stores,
    dataset: Dataset,
    rows: Sequence[Row],
    folder: Path,
    *,
    at: int,
    watermark: str | None = None,
    ops: Sequence[int] | None = None,
) -> None:
    """One block of rows, or of a watermark only."""
    from odf_workers.slices.write import described, write_batches

    state = dataset.state()
    data = None
    start = 0 if state.last_offset is None else state.last_offset + 1
    if rows:
        columns: dict[str, Any] = {
            "offset": pa.array(range(start, start + len(rows)), pa.int64()),
            "op": pa.array(ops or [0] * len(rows), pa.int32()),
            "system_time": pa.array([moment(at).millis] * len(rows), pa.int64()).cast(MILLIS),
            "event_time": pa.array(
                [Instant.parse(when).millis for when, _, _ in rows], pa.int64()
            ).cast(MILLIS),
            "city": pa.array([city for _, city, _ in rows], pa.string()),
            "n": pa.array([n for _, _, n in rows], pa.int64()),
        }
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=SCHEMA)
        path = folder / f"{dataset.id.multibase}-{start}.parquet"
        write_batches(iter([batch]), SCHEMA, path)
        data = described(path, start)
        stores.objects.put(ObjectKey(dataset.id, ObjectKind.DATA, data.physical_hash), chunks(path))
    event = AddData(
        prev_offset=state.last_offset,
        new_data=data,
        new_watermark=Instant.parse(watermark) if watermark else state.watermark,
    )
    commit(dataset, event, at=at)


def node_of(stores: Stores, scratch: Path, **options: Any) -> Any:
    """A bench on DataFusion alone."""
    from tests.workers.datasets import ingest_options

    from odf_workers.engines.datafusion.engine import DataFusionEngine
    from odf_workers.jobs.work.context import Engines, TransformOptions, WorkerContext

    engine = DataFusionEngine()
    return WorkerContext(
        engines=Engines(session=cast("Any", None), first=cast("Any", engine)),
        objects=stores.objects,
        scratch=scratch,
        ingest=ingest_options(scratch),
        transforms=TransformOptions(**options),
    )


class Working:
    """A worker of a served node, on DataFusion alone, in a thread."""

    def __init__(self, service: Any, scratch: Path) -> None:
        from odf_workers.program.loop import Worker

        self.worker = Worker(
            stores=service.node.stores,
            context=node_of(service.node.stores, scratch),
            name="here",
            lease=timedelta(seconds=30),
            longest_pause_s=0.05,
        )
        self._thread = threading.Thread(target=self.worker.work, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self.worker.stop.set()
        self._thread.join()


def read(stores: Stores, dataset: Dataset) -> list[dict[str, Any]]:
    """All rows of a dataset in their order."""
    import io

    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = []
    for block in dataset.blocks():
        data = getattr(block.event, "new_data", None)
        if data is not None:
            with dataset.open_object(ObjectKind.DATA, data.physical_hash) as stream:
                found += pq.read_table(io.BytesIO(stream.read())).to_pylist()
    return found
