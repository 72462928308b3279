"""Iceberg tables as text and bytes: ids of columns, types, manifests that another reader reads."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent, ManifestFile, read_manifest_list
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.name_mapping import parse_mapping_from_json

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.iceberg.manifests import (
    ROWS_IN_BLOCK,
    File,
    FileContent,
    IcebergManifest,
    Range,
    bound,
    container,
    manifest_file,
    manifest_list,
)
from odf_protocol.iceberg.metadata import (
    MAPPING,
    IcebergSchemas,
    Snapshot,
    snapshot_id,
    table_metadata,
)
from odf_protocol.multihash import Multihash

PLACE = pa.struct([("city", pa.string()), ("zip", pa.int32())])
FIRST = pa.schema(
    [
        ("offset", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("place", PLACE),
        ("by_name", pa.map_(pa.string(), PLACE)),
        ("last", pa.bool_()),
    ]
)
LATER = FIRST.insert(1, pa.field("new", pa.float64())).set(
    3, pa.field("place", pa.struct([("street", pa.string()), *PLACE]))
)


def ids(field: dict, path: str = "") -> dict[str, int]:
    """Of a field and those inside of it, by path."""
    found = {path + field["name"]: field["id"]}
    kind, path = field["type"], f"{path}{field['name']}."
    if isinstance(kind, dict):
        inside = kind.get("fields") or [
            {"name": name, "id": kind[f"{name}-id"], "type": kind[name]}
            for name in ("element", "key", "value")
            if name in kind
        ]
        for each in inside:
            found |= ids(each, path)
    return found


def all_ids(schema) -> dict[str, int]:
    return {path: number for field in schema.fields for path, number in ids(field).items()}


def test_columns_are_numbered_as_the_chain_first_names_them_and_never_again():
    schemas = IcebergSchemas([from_arrow(FIRST), from_arrow(LATER)])
    first, later = (all_ids(each) for each in schemas.all)
    assert first == {
        "offset": 1,
        "tags": 2,
        "place": 3,
        "by_name": 4,
        "last": 5,
        "tags.element": 6,
        "place.city": 7,
        "place.zip": 8,
        "by_name.key": 9,
        "by_name.value": 10,
        "by_name.value.city": 11,
        "by_name.value.zip": 12,
    }
    assert later == {**first, "new": 13, "place.street": 14}
    assert schemas.last_id == 14


READ = ["int", "int", "int", "time"]


def test_columns_that_iceberg_has_no_type_of_are_named():
    columns = {
        "wide": pa.decimal256(50, 2),
        "nothing": pa.null(),
        "half": pa.float16(),
        "hour": pa.time64("ns"),
        "minute": pa.time32("ms"),
        "second": pa.time32("s"),
        "count": pa.uint32(),
        "total": pa.uint64(),
        "inside": pa.list_(pa.float16()),
        "fine": pa.int8(),
        "byte": pa.uint8(),
        "port": pa.uint16(),
        "time": pa.time64("us"),
    }
    (schema,) = IcebergSchemas([from_arrow(pa.schema(list(columns.items())))]).all
    assert schema.foreign == list(columns)[: -len(READ)]
    assert [field["type"] for field in schema.fields[-len(READ) :]] == READ


def made(schema) -> tuple[list[File], bytes]:
    number, kind = schema.column("offset")
    files = [
        File(
            path=f"s3://a/b/data/{at}",
            rows=10,
            size=100 + at,
            snapshot=70 + at,
            sequence=1 + at,
            ranges=[Range(number, bound(kind, 10 * at), bound(kind, 10 * at + 9), nulls=0)],
        )
        for at in range(ROWS_IN_BLOCK + 3)
    ]
    return files, manifest_file(files, schema, FileContent.DATA)


def test_another_reader_reads_manifests_and_their_list(tmp_path):
    (schema,) = IcebergSchemas([from_arrow(FIRST)]).all
    files, content = made(schema)
    assert made(schema)[1] == content
    manifest, listed = tmp_path / "m.avro", tmp_path / "l.avro"
    manifest.write_bytes(content)
    told = IcebergManifest(
        path=str(manifest),
        size=len(content),
        content=FileContent.DATA,
        snapshot=files[-1].snapshot,
        sequence=files[-1].sequence,
        first_sequence=1,
        files=len(files),
        rows=10 * len(files),
    )
    listed.write_bytes(manifest_list([told], snapshot=5, parent=None, sequence=9))
    io = PyArrowFileIO()
    (one,) = read_manifest_list(io.new_input(str(listed)))
    assert isinstance(one, ManifestFile)
    assert (one.content, one.added_snapshot_id, one.sequence_number) == (
        ManifestContent.DATA,
        told.snapshot,
        told.sequence,
    )
    entries = one.fetch_manifest_entry(io)
    assert len(entries) == len(files)
    for entry, file in zip(entries, files, strict=True):
        data = entry.data_file
        assert (data.file_path, data.record_count, data.file_size_in_bytes) == (
            file.path,
            file.rows,
            file.size,
        )
        assert (entry.snapshot_id, entry.sequence_number) == (file.snapshot, file.sequence)
        assert data.lower_bounds == {1: file.ranges[0].lower}
        assert data.null_value_counts == {1: 0}
        assert (data.column_sizes, data.nan_value_counts) == ({}, {})
    with AvroFile(io.new_input(str(manifest))) as reader:
        assert json.loads(reader.header.meta["schema"]) == schema.told


@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.none() | st.binary(max_size=100)),
        max_size=10,
    )
)
def test_numbers_and_bytes_of_any_size_come_back(rows):
    from io import BytesIO

    from pyiceberg.avro.decoder_fast import CythonBinaryDecoder

    kinds = [{"name": "n", "type": "long"}, {"name": "b", "type": ["null", "bytes"]}]
    schema = {"type": "record", "name": "r", "fields": kinds}
    out = container(schema, ({"n": number, "b": some} for number, some in rows), {})
    marker = out[-16:]
    stream = BytesIO(out.partition(marker)[2])
    decoder = CythonBinaryDecoder(stream.getvalue())
    if not rows:
        return
    count, _ = decoder.read_int(), decoder.read_int()
    found = []
    for _ in range(count):
        number = decoder.read_int()
        found.append((number, decoder.read_bytes() if decoder.read_int() else None))
    assert found == rows


@pytest.mark.parametrize("count", [0, 2])
def test_another_reader_takes_the_metadata(count):
    schemas = IcebergSchemas([from_arrow(FIRST), from_arrow(LATER)])
    blocks = [Multihash.of(bytes([at])) for at in range(count)]
    numbers = [snapshot_id(block) for block in blocks]
    snapshots = [
        Snapshot(
            id=numbers[at],
            parent=numbers[at - 1] if at else None,
            sequence=at + 1,
            made_ms=1_000 + at,
            manifests="s3://a/b/iceberg/x.avro",
            schema=1,
            block=str(block),
            only_adds=not at,
        )
        for at, block in enumerate(blocks)
    ]
    told = table_metadata(
        identity="00000000-0000-0000-0000-000000000001",
        location="s3://a/b",
        created_ms=7,
        schemas=schemas,
        shown=schemas.all,
        snapshots=snapshots,
        properties={},
    )
    found = TableMetadataUtil.parse_obj(told)
    assert found.current_schema_id == 1
    assert [each.snapshot_id for each in found.snapshots] == numbers
    mapping = parse_mapping_from_json(told["properties"][MAPPING])
    assert mapping._field_by_name["by_name.value.zip"].field_id == 12
