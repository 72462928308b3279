"""What a batch may look like beside the dataset it goes into; else it is refused in our words."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.workers.datasets import bench_without_engine, created, upload
from throwaway import throwaway_stores

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, SetDataSchema, SetVocab
from odf_protocol.metadata.sources import ReadStepParquet
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest.run import run_ingest
from odf_workers.slices.conform import UnexpectedNulls
from odf_workers.slices.schema import MILLIS, BadInputSchema, BadRow, IncompatibleSchema

NOW = Instant.parse("2050-01-01T00:00:00Z")
LATER = datetime(2050, 1, 1, tzinfo=UTC)
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
Columns = dict[str, tuple[pa.DataType, list[Any]]]


def required(kind: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field("a", kind, nullable=False)])


def dataset_schema(name: str, kind: pa.DataType, time: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("op", pa.int32(), nullable=False),
            pa.field("system_time", MILLIS, nullable=False),
            pa.field("event_time", time, nullable=False),
            pa.field(name, kind),
        ]
    )


def ingested(batch: Columns, folder: Path, *events: Any) -> list[dict[str, Any]]:
    """Rows after a batch was appended: without any engine, which appending needs not."""
    stores = throwaway_stores()
    bench = bench_without_engine(stores, folder)
    dataset = created(stores, read=ReadStepParquet(), more=events)
    table = pa.table({name: pa.array(rows, kind) for name, (kind, rows) in batch.items()})
    body = pa.BufferOutputStream()
    pq.write_table(table, body)
    run_ingest(dataset, upload(stores, dataset, body.getvalue().to_pybytes()), bench, now=NOW)
    event = dataset.blocks()[-1].event
    assert isinstance(event, AddData)
    assert event.new_data is not None
    with dataset.open_object(ObjectKind.DATA, event.new_data.physical_hash) as stream:
        rows: list[dict[str, Any]] = pq.read_table(stream).to_pylist()
    return rows


ITEMS = pa.list_(pa.int64())


@pytest.mark.parametrize(
    ("of_dataset", "of_batch", "value", "becomes"),
    [
        (ITEMS, pa.large_list(pa.int64()), [1, None], [1, None]),
        (pa.string(), pa.large_string(), "a", "a"),
        (pa.string(), pa.string_view(), "a", "a"),
        (pa.binary(), pa.large_binary(), b"a", b"a"),
        (pa.struct([("a", pa.int64())]), required(pa.int64()), {"a": 1}, {"a": 1}),
        (required(pa.int64()), pa.struct([("a", pa.int64())]), {"a": 1}, {"a": 1}),
        (required(pa.int64()), required(pa.int64()), None, None),
        (MILLIS, pa.timestamp("us", "Asia/Tokyo"), 1_999, BEGIN.replace(microsecond=1_000)),
        (MILLIS, pa.timestamp("s"), 1, BEGIN.replace(second=1)),
        (pa.int64(), pa.null(), None, None),
        (pa.int64(), pa.int32(), 1, 1),
        (pa.float64(), pa.int64(), 1, 1.0),
        (ITEMS, pa.list_(pa.int32()), [1], [1]),
    ],
    ids=str,
)
def test_layouts_units_zones_and_widths_make_no_difference(
    of_dataset: pa.DataType, of_batch: pa.DataType, value: Any, becomes: Any, tmp_path: Path
) -> None:
    schema = SetDataSchema(schema=from_arrow(dataset_schema("x", of_dataset, MILLIS)))
    [row] = ingested({"x": (of_batch, [value])}, tmp_path, schema)
    assert (row["x"], row["event_time"]) == (becomes, LATER)


@pytest.mark.parametrize(
    ("of_dataset", "of_batch", "value", "refused", "what"),
    [
        (pa.int64(), pa.float64(), 1.5, IncompatibleSchema, "`x` is double"),
        (pa.int64(), pa.string(), "1", IncompatibleSchema, "`x` is string"),
        (pa.int64(), MILLIS, 1, IncompatibleSchema, "`x` is timestamp"),
        (pa.binary(), pa.binary(1), b"a", IncompatibleSchema, "`x` is fixed"),
        (ITEMS, pa.list_(pa.int64(), 1), [1], IncompatibleSchema, "`x` is fixed"),
        (ITEMS, pa.list_(pa.float64()), [1.5], IncompatibleSchema, "`x` is list"),
        (required(pa.int64()), pa.struct([("b", pa.int64())]), {}, IncompatibleSchema, "`x`"),
        (
            required(pa.int64()),
            pa.struct([("a", pa.int64())]),
            {"a": None},
            UnexpectedNulls,
            r"`x\.a` contains 1 null",
        ),
        (
            required(required(pa.int64())),
            pa.struct([("a", pa.struct([("a", pa.int64())]))]),
            {"a": {"a": None}},
            UnexpectedNulls,
            r"`x\.a\.a` contains 1 null",
        ),
        (
            pa.list_(pa.field("item", pa.int64(), nullable=False)),
            ITEMS,
            [1, None],
            UnexpectedNulls,
            "List column `x` contains 1 null elements",
        ),
    ],
    ids=str,
)
def test_another_type_or_a_missing_value_is_refused(
    of_dataset: pa.DataType,
    of_batch: pa.DataType,
    value: Any,
    refused: type[BadInput],
    what: str,
    tmp_path: Path,
) -> None:
    schema = SetDataSchema(schema=from_arrow(dataset_schema("x", of_dataset, MILLIS)))
    with pytest.raises(refused, match=what):
        ingested({"x": (of_batch, [value])}, tmp_path, schema)


@pytest.mark.parametrize(
    ("kind", "given", "times"),
    [
        (
            pa.string(),
            ["2020-01-01T00:00:00.1239Z", None],
            [datetime(2020, 1, 1, 0, 0, 0, 123_000, UTC), LATER],
        ),
        (pa.string_view(), ["2020-01-01"], [datetime(2020, 1, 1, tzinfo=UTC)]),
        (
            pa.int64(),
            [None, 1, -1],
            [datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), BEGIN.replace(second=1), LATER],
        ),
        (pa.uint8(), [0], [BEGIN]),
        (pa.date32(), [date(2020, 1, 1), None], [date(2020, 1, 1), date(2050, 1, 1)]),
        (pa.null(), [None], [LATER]),
    ],
    ids=str,
)
def test_event_times_of_other_forms_become_times(
    kind: pa.DataType, given: list[Any], times: list[Any], tmp_path: Path
) -> None:
    rows = ingested({"event_time": (kind, given)}, tmp_path)
    assert [row["event_time"] for row in rows] == times


@pytest.mark.parametrize(
    ("kind", "value", "refused"),
    [
        (pa.string(), "soon", BadRow),
        (pa.string_view(), "soon", BadRow),
        (pa.int64(), 2**62, BadRow),
        (pa.int64(), 1_577_836_800_123, BadRow),
        (pa.int64(), -(10**11), BadRow),
        (pa.timestamp("ms", "UTC"), 253_402_300_800_000, BadRow),
        (pa.timestamp("s"), -62_135_596_801, BadRow),
        (pa.date32(), 2_932_897, BadRow),
        (pa.uint64(), 2**64 - 1, BadRow),
        (pa.float64(), 1.5, BadInputSchema),
        (pa.bool_(), True, BadInputSchema),
    ],
    ids=str,
)
def test_what_is_no_event_time_is_refused(
    kind: pa.DataType, value: Any, refused: type[BadInput], tmp_path: Path
) -> None:
    with pytest.raises(refused, match=r"event.time"):
        ingested({"event_time": (kind, [value])}, tmp_path)


def test_a_vocabulary_with_one_name_twice_takes_no_data(tmp_path: Path) -> None:
    vocab = SetVocab(event_time_column="offset")
    with pytest.raises(BadInputSchema, match="one name"):
        ingested({"x": (pa.int64(), [1])}, tmp_path, vocab)
