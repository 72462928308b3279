"""ODF, Arrow, Parquet and Spark agree on types."""

from __future__ import annotations

import base64
import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odf_protocol.columns.arrow_schema import (
    BUFFER_ENCODING,
    DATE_ENCODING,
    DECIMAL_ENCODING,
    UnsupportedSchema,
    decode_raw_arrow_schema,
    from_arrow,
    to_arrow,
    to_arrow_type,
)
from odf_protocol.columns.stored_types import parquet_type, spark_type
from odf_protocol.errors import NodeError
from odf_protocol.metadata import schema as odf
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.schema import DataField, DataSchema, DataType, TimeUnit

VECTORS = Path(__file__).parents[1] / "vectors"
TYPE_MAP = json.loads((VECTORS / "ingest/type_map.json").read_text())["cases"]
RAW_SCHEMAS = [
    event["rawArrowSchema"]
    for vector in json.loads((VECTORS / "blocks.json").read_text())["vectors"]
    for event in [vector["manifest"]["content"]["event"]]
    if "rawArrowSchema" in event
]
RAW_TWO_COLUMNS = next(base64.b64decode(raw) for raw in RAW_SCHEMAS if raw.startswith("DAAAA"))


def _parse(text: Any) -> DataType:
    """The short spelling of data types: a name, or a map with `kind`."""
    given = {"kind": text} if isinstance(text, str) else dict(text)
    kind = getattr(odf, "DataType" + given.pop("kind"))
    nested = {"inner": "inner", "itemType": "item_type", "keyType": "key_type"}
    nested["valueType"] = "value_type"
    arguments: dict[str, Any] = {}
    for key, value in given.items():
        if key in nested:
            arguments[nested[key]] = _parse(value)
        elif key == "fields":
            arguments["fields"] = tuple(
                DataField(name=field["name"], type=_parse(field["type"])) for field in value
            )
        elif key == "unit":
            arguments["unit"] = TimeUnit(value)
        else:
            arguments[{"fixedLength": "fixed_length"}.get(key, key)] = value
    return kind(**arguments)


def _arrow_name(arrow_type: pa.DataType, nullable: bool = False) -> str:
    """Arrow types as the vectors spell them."""
    if pa.types.is_struct(arrow_type):
        members = [arrow_type.field(i) for i in range(arrow_type.num_fields)]
        text = ",".join(f"{m.name}:{_arrow_name(m.type, m.nullable)}" for m in members)
        name = f"struct<{text}>"
    elif pa.types.is_list(arrow_type):
        item = arrow_type.value_field
        name = f"list<{_arrow_name(item.type, item.nullable)}>"
    elif pa.types.is_timestamp(arrow_type):
        name = f"timestamp[{arrow_type.unit},{arrow_type.tz}]"
    else:
        name = str(arrow_type).replace("string", "utf8").replace("float", "float32")
        name = {"double": "float64", "halffloat": "float16"}.get(str(arrow_type), name)
        name = name.replace(", ", ",").replace("[day]", "")
    return name + ("?" if nullable else "")


@pytest.mark.parametrize("case", TYPE_MAP, ids=lambda case: case["title"])
def test_types_have_the_names_the_reference_gives_them(case: dict[str, Any]) -> None:
    data_type, expected = _parse(case["given"]["odf"]), case["expect"]
    assert _arrow_name(*to_arrow_type(data_type)) == expected["arrow"]
    stored = parquet_type(data_type)
    assert stored.physical == expected["parquet"]["physical"]
    assert stored.logical == expected["parquet"]["logical"]
    assert stored.optional == (expected["parquet"].get("repetition") == "OPTIONAL")
    assert spark_type(data_type) == expected["spark"]


@pytest.mark.parametrize(
    ("kind", "unit", "physical", "logical"),
    [
        (odf.DataTypeTime, None, "INT32", "TIME(MILLIS,false)"),
        (odf.DataTypeTime, TimeUnit.Second, "INT32", None),
        (odf.DataTypeTime, TimeUnit.Nanosecond, "INT64", "TIME(NANOS,false)"),
        (odf.DataTypeTimestamp, None, "INT64", "TIMESTAMP(MILLIS,true)"),
        (odf.DataTypeTimestamp, TimeUnit.Second, "INT64", None),
    ],
)
def test_times_are_annotated_as_the_reference_writer_does(
    kind: Any, unit: TimeUnit | None, physical: str, logical: str | None
) -> None:
    stored = parquet_type(kind(unit=unit))
    assert (stored.physical, stored.logical) == (physical, logical)


ALL_ARROW = [
    (pa.bool_(), odf.DataTypeBool()),
    (pa.int8(), odf.DataTypeInt8()),
    (pa.int16(), odf.DataTypeInt16()),
    (pa.int32(), odf.DataTypeInt32()),
    (pa.int64(), odf.DataTypeInt64()),
    (pa.uint8(), odf.DataTypeUInt8()),
    (pa.uint16(), odf.DataTypeUInt16()),
    (pa.uint32(), odf.DataTypeUInt32()),
    (pa.uint64(), odf.DataTypeUInt64()),
    (pa.float16(), odf.DataTypeFloat16()),
    (pa.float32(), odf.DataTypeFloat32()),
    (pa.float64(), odf.DataTypeFloat64()),
    (pa.decimal128(38, 10), odf.DataTypeDecimal(precision=38, scale=10)),
    (pa.decimal256(39, -2), odf.DataTypeDecimal(precision=39, scale=-2)),
    (pa.string(), odf.DataTypeString()),
    (pa.binary(), odf.DataTypeBinary()),
    (pa.binary(16), odf.DataTypeBinary(fixed_length=16)),
    (pa.date32(), odf.DataTypeDate()),
    (pa.time32("s"), odf.DataTypeTime(unit=TimeUnit.Second)),
    (pa.time64("ns"), odf.DataTypeTime(unit=TimeUnit.Nanosecond)),
    (
        pa.timestamp("us", "Europe/Vienna"),
        odf.DataTypeTimestamp(unit=TimeUnit.Microsecond, timezone="Europe/Vienna"),
    ),
    (pa.duration("s"), odf.DataTypeDuration(unit=TimeUnit.Second)),
    (
        pa.list_(pa.field("item", pa.int8(), nullable=False)),
        odf.DataTypeList(item_type=odf.DataTypeInt8()),
    ),
    (
        pa.list_(pa.int8(), 3),
        odf.DataTypeList(item_type=odf.DataTypeOption(inner=odf.DataTypeInt8()), fixed_length=3),
    ),
    (
        pa.struct([pa.field("x", pa.int8(), nullable=False), pa.field("y", pa.string())]),
        odf.DataTypeStruct(
            fields=(
                DataField(name="x", type=odf.DataTypeInt8()),
                DataField(name="y", type=odf.DataTypeOption(inner=odf.DataTypeString())),
            )
        ),
    ),
    (
        pa.map_(pa.field("keys", pa.string(), False), pa.field("values", pa.int32()), True),
        odf.DataTypeMap(
            key_type=odf.DataTypeString(),
            value_type=odf.DataTypeOption(inner=odf.DataTypeInt32()),
            keys_sorted=True,
        ),
    ),
]


@pytest.mark.parametrize(("arrow_type", "data_type"), ALL_ARROW, ids=lambda v: str(v)[:40])
def test_every_type_goes_to_arrow_and_back(arrow_type: pa.DataType, data_type: DataType) -> None:
    assert to_arrow_type(data_type) == (arrow_type, False)
    optional = odf.DataTypeOption(inner=data_type)
    both = pa.schema([pa.field("r", arrow_type, nullable=False), pa.field("o", arrow_type)])
    fields = (DataField(name="r", type=data_type), DataField(name="o", type=optional))
    assert from_arrow(both) == DataSchema(fields=fields)
    assert to_arrow(DataSchema(fields=fields)).equals(both)


@pytest.mark.parametrize(
    ("arrow_type", "data_type"),
    [
        (pa.large_string(), odf.DataTypeString()),
        (pa.string_view(), odf.DataTypeString()),
        (pa.large_binary(), odf.DataTypeBinary()),
        (pa.binary_view(), odf.DataTypeBinary()),
        (pa.date64(), odf.DataTypeDate()),
        (pa.decimal32(5, 2), odf.DataTypeDecimal(precision=5, scale=2)),
        (pa.run_end_encoded(pa.int32(), pa.int8()), odf.DataTypeInt8()),
        (pa.uuid(), odf.DataTypeBinary(fixed_length=16)),
        (
            pa.large_list(pa.field("item", pa.int8(), nullable=False)),
            odf.DataTypeList(item_type=odf.DataTypeInt8()),
        ),
        (
            pa.list_view(pa.field("item", pa.int8(), nullable=False)),
            odf.DataTypeList(item_type=odf.DataTypeInt8()),
        ),
    ],
    ids=str,
)
def test_layouts_are_no_part_of_a_schema(arrow_type: pa.DataType, data_type: DataType) -> None:
    schema = pa.schema([pa.field("c", arrow_type, nullable=False, metadata={"k": "v"})])
    assert from_arrow(schema) == DataSchema(fields=(DataField(name="c", type=data_type),))


@pytest.mark.parametrize(
    ("data_type", "key", "hint", "arrow_type"),
    [
        (odf.DataTypeString(), BUFFER_ENCODING, {"kind": "View"}, pa.string_view()),
        (
            odf.DataTypeBinary(),
            BUFFER_ENCODING,
            {"kind": "Contiguous", "offsetBitWidth": 64},
            pa.large_binary(),
        ),
        (
            odf.DataTypeInt8(),
            BUFFER_ENCODING,
            {"kind": "RunEnd", "runEndsBitWidth": 16},
            pa.run_end_encoded(pa.int16(), pa.int8()),
        ),
        (odf.DataTypeDate(), DATE_ENCODING, {"unit": "Millisecond"}, pa.date64()),
        (
            odf.DataTypeDecimal(precision=5, scale=2),
            DECIMAL_ENCODING,
            {"bitWidth": 256},
            pa.decimal256(5, 2),
        ),
    ],
    ids=str,
)
def test_hints_ask_for_layouts(
    data_type: DataType, key: str, hint: dict[str, Any], arrow_type: pa.DataType
) -> None:
    field = DataField(name="c", type=data_type, extra=Attributes.of({key: hint}))
    assert to_arrow(DataSchema(fields=(field,))).field("c").type == arrow_type


def test_units_and_zones_default_to_milliseconds_of_utc() -> None:
    assert to_arrow_type(odf.DataTypeTimestamp())[0] == pa.timestamp("ms", "UTC")
    assert to_arrow_type(odf.DataTypeTime())[0] == pa.time32("ms")
    assert to_arrow_type(odf.DataTypeDuration())[0] == pa.duration("ms")


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.month_day_nano_interval(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.sparse_union([pa.field("a", pa.int8())]),
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
    ],
    ids=str,
)
def test_arrow_types_unknown_to_odf_are_refused(arrow_type: pa.DataType) -> None:
    with pytest.raises(UnsupportedSchema):
        from_arrow(pa.schema([("c", arrow_type)]))


@pytest.mark.parametrize(
    "data_type",
    [
        odf.DataTypeDecimal(precision=77, scale=0),
        odf.DataTypeDecimal(precision=0, scale=0),
        odf.DataTypeBinary(fixed_length=-2),
        odf.DataTypeBinary(fixed_length=2**70),
        odf.DataTypeList(item_type=odf.DataTypeBool(), fixed_length=-1),
        odf.DataTypeOption(inner=odf.DataTypeOption(inner=odf.DataTypeBool())),
        odf.DataTypeMap(
            key_type=odf.DataTypeOption(inner=odf.DataTypeString()), value_type=odf.DataTypeBool()
        ),
    ],
    ids=lambda t: str(t)[:60],
)
def test_odf_types_without_meaning_are_refused(data_type: DataType) -> None:
    with pytest.raises(UnsupportedSchema):
        to_arrow_type(data_type)


def test_endless_nesting_is_refused() -> None:
    data_type: DataType = odf.DataTypeBool()
    arrow_type = pa.bool_()
    for _ in range(200):
        data_type = odf.DataTypeList(item_type=data_type)
        arrow_type = pa.list_(arrow_type)
    with pytest.raises(UnsupportedSchema):
        to_arrow_type(data_type)
    with pytest.raises(UnsupportedSchema):
        from_arrow(pa.schema([("c", arrow_type)]))


def test_the_raw_form_of_old_blocks_is_read() -> None:
    schema = decode_raw_arrow_schema(RAW_TWO_COLUMNS)
    assert schema.names == ["a", "b"]
    assert from_arrow(schema).fields[0].type == odf.DataTypeInt64()


def _raw_of(schema: pa.Schema) -> bytes:
    """The bare table inside of an IPC message: the tail of the metadata, with a root in front."""
    message = schema.serialize().to_pybytes()[8:]
    table = struct.unpack_from("<I", message)[0]
    vtable = table - struct.unpack_from("<i", message, table)[0]
    slot = struct.unpack_from("<H", message, vtable + 8)[0]
    header = table + slot
    root = header + struct.unpack_from("<I", message, header)[0]
    return struct.pack("<I", root + 8) + bytes(4) + message


def test_a_raw_schema_gives_back_every_type_arrow_can_write() -> None:
    schema = pa.schema([pa.field(f"c{n}", t) for n, (t, _) in enumerate(ALL_ARROW)])
    assert decode_raw_arrow_schema(_raw_of(schema)).equals(schema)


@given(st.binary(max_size=300))
@example(base64.b64decode("AAECAwQFBgcICQoLDA=="))
@example(b"")
def test_bytes_that_are_no_schema_are_refused_in_our_words(raw: bytes) -> None:
    with contextlib.suppress(NodeError):
        from_arrow(decode_raw_arrow_schema(raw))


@given(st.data())
def test_damaged_schemas_are_refused_or_read(data: st.DataObject) -> None:
    raw = bytearray(_raw_of(pa.schema([(f"c{n}", t) for n, (t, _) in enumerate(ALL_ARROW)])))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(NodeError):
        from_arrow(decode_raw_arrow_schema(bytes(raw)))
