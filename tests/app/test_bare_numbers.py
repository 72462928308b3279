"""Slices of peers whose columns are bare numbers for Parquet: the Arrow schema says what they are.

The Rust implementation writes Date64, and times in seconds, as INT64 and INT32 without a type.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from datafusion import SessionContext
from service import Service, described, seeded, serving

from odf_node.cli.main import main
from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer.sync import pull, push
from odf_protocol.columns.arrow_digest import digest_of, logical_hash
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.columns.slice_file import schema_of
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import ObjectKind

UTC = pa.timestamp("ms", "UTC")
DAY = 86_400_000
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        pa.field("system_time", UTC, nullable=False),
        pa.field("event_time", UTC, nullable=False),
        pa.field("day", pa.date64()),
        pa.field("clock", pa.time32("s")),
        pa.field("moment", pa.timestamp("s")),
        pa.field("number", pa.int64()),
    ]
)
ROWS = pa.record_batch(
    [
        pa.array([0, 1, 2], pa.int64()),
        pa.array([0, 0, 0], pa.int32()),
        pa.array([DAY] * 3, pa.int64()).cast(UTC),
        pa.array([DAY] * 3, pa.int64()).cast(UTC),
        pa.array([0, 20_000 * DAY, None], pa.int64()).cast(pa.date64()),
        pa.array([1, None, 86_399], pa.int32()).cast(pa.time32("s")),
        pa.array([1, -1, None], pa.int64()).cast(pa.timestamp("s")),
        pa.array([1, 2, 3], pa.int64()),
    ],
    schema=SCHEMA,
)
SHOWN = [
    {"day": "1970-01-01", "clock": "00:00:01", "moment": "1970-01-01T00:00:01Z"},
    {"day": "2024-10-04", "clock": None, "moment": "1969-12-31T23:59:59Z"},
    {"day": None, "clock": "23:59:59", "moment": None},
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: Any) -> bytes:
    """The slice as the Rust implementation writes it."""
    path = tmp_path_factory.mktemp("rust") / "slice.parquet"
    context = SessionContext()
    context.register_record_batches("t", [[ROWS]])
    context.sql("select * from t").write_parquet(str(path))
    found: Path = next(path.glob("*.parquet")) if path.is_dir() else path
    return found.read_bytes()


def test_the_arrow_schema_of_the_footer_is_believed_where_the_numbers_fit(written):
    file = pq.ParquetFile(io.BytesIO(written))
    assert file.schema_arrow.field("day").type == pa.int64()
    assert schema_of(file).types == SCHEMA.types
    assert digest_of(file).finish() == logical_hash([ROWS], SCHEMA)


def test_a_schema_that_does_not_fit_is_not_believed():
    told = pa.schema([("n", pa.time32("s")), ("t", pa.date64()), ("x", pa.date64())])
    table = pa.table({"n": pa.array([1], pa.int64()), "t": ["a"], "y": pa.array([1], pa.int64())})
    for columns in (["n", "t"], ["n", "t", "y"]):
        out = io.BytesIO()
        some = table.select(columns)
        with pq.ParquetWriter(out, some.schema, store_schema=False) as writer:
            writer.write_table(some)
            raw = base64.b64encode(pa.schema(list(told)[: len(columns)]).serialize())
            writer.add_key_value_metadata({"ARROW:schema": raw.decode()})
        assert schema_of(pq.ParquetFile(io.BytesIO(out.getvalue()))).types == some.schema.types


@pytest.fixture(scope="module")
def folder(written: bytes, tmp_path_factory: Any) -> Path:
    chain = seeded().add(described(), SetDataSchema(schema=from_arrow(SCHEMA)))
    chain = chain.add_slice(written, 3)
    objects = FolderObjects(tmp_path_factory.mktemp("folders") / "bare")
    for block in chain.blocks:
        objects.put(ObjectKind.BLOCK, block.hash, [block.raw])
    for (kind, name), content in chain.objects.items():
        objects.put(kind, name, [content])
    objects.write_ref("head", chain.head)
    return objects.root


@pytest.fixture(scope="module")
def service(folder: Path, tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("bare") / "node") as service:
        target = Location.parse(f"odf+{service.url}/bare")
        push(Location.parse(str(folder)), target, token=service.token())
        yield service


def test_a_pushed_dataset_with_such_columns_passes_the_gate_and_is_read(service: Service):
    with service.http(service.token()) as client:
        asked = {"query": "select day, clock, moment from bare where number > 0 order by number"}
        answer = client.post("/query", json=asked).json()["output"]["data"]
        rows = client.get("/bare/read", params={"format": "json"}).json()
    names = list(SHOWN[0])
    for found in (answer, rows):
        assert [{name: row[name] for name in names} for row in found] == SHOWN


def test_its_verification_finds_nothing(service: Service, folder: Path, tmp_path: Path):
    assert CliRunner().invoke(main, ["verify", str(folder)]).exit_code == 0
    copy = tmp_path / "copy"
    source = Location.parse(f"odf+{service.url}/bare")
    pull(source, Location.parse(str(copy)), token=service.token())
    found = CliRunner().invoke(main, ["verify", str(copy)])
    assert found.exit_code == 0, found.output
