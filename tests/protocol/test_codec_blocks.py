"""Blocks as bytes: known answers, what is refused, what newer writers may bring."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from flatbuffers import Builder
from known import name_of, vectors
from refusals import refusing

from odf_protocol.codec import blocks, encode
from odf_protocol.codec.blocks import (
    MANIFEST_FIELDS,
    MAX_BLOCK_BYTES,
    METADATA_BLOCK_CODE,
    Manifest,
    decode_block,
    encode_block,
    peek_block,
)
from odf_protocol.codec.decode import MAX_SHARING
from odf_protocol.codec.encode import MAX_DEPTH, Unencodable, encode_root
from odf_protocol.codec.manifests import block_from_manifest, block_manifest
from odf_protocol.codec.tables import TABLES, UNIONS, Field
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import MAX_BYTES, Attributes
from odf_protocol.metadata.events import (
    AddData,
    DatasetKind,
    DataSlice,
    MetadataBlock,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetInfo,
    UnknownEvent,
)
from odf_protocol.metadata.schema import (
    DataField,
    DataSchema,
    DataTypeBool,
    DataTypeDecimal,
    DataTypeList,
    DataTypeTime,
    Variant,
)
from odf_protocol.multihash import HashMismatch, Multihash

NOON = Instant.parse("2050-01-01T12:00:00Z")


def block_of(event) -> MetadataBlock:
    return MetadataBlock(system_time=NOON, sequence_number=7, event=event)


def framed(content: bytes, *, kind: int = METADATA_BLOCK_CODE, version: int = 3) -> bytes:
    """A content in the manifest of a block."""
    value = Manifest(kind=kind, version=version, content=content)
    return encode_root("Manifest", value, fields=MANIFEST_FIELDS)


@pytest.mark.parametrize("vector", vectors("blocks"), ids=name_of)
def test_a_manifest_becomes_exactly_the_known_bytes(vector):
    block, version = block_from_manifest(vector["manifest"])
    encoded = encode_block(block, version)
    assert encoded.raw.hex() == vector["bytes"]
    assert str(encoded.hash) == vector["hash"]


@pytest.mark.parametrize("vector", vectors("blocks"), ids=name_of)
def test_known_bytes_become_the_canonical_manifest(vector):
    block = decode_block(bytes.fromhex(vector["bytes"]), expected=Multihash.parse(vector["hash"]))
    assert block_manifest(block) == vector.get("canonical", vector["manifest"])
    assert encode_block(block.block, block.version).raw.hex() == vector["bytes"]


@pytest.mark.parametrize("vector", vectors("blocks-invalid", "block-invalid"), ids=name_of)
def test_a_manifest_that_is_no_block_is_refused(vector):
    with pytest.raises(NodeError):
        encode_block(*block_from_manifest(vector["manifest"]))


@pytest.mark.parametrize("vector", vectors("blocks-invalid", "bytes-invalid"), ids=name_of)
def test_bytes_that_are_no_block_are_refused(vector):
    with refusing("MalformedBlock", "UnsupportedBlockVersion"):
        decode_block(bytes.fromhex(vector["bytes"]))


def test_bytes_with_another_hash_than_expected_are_refused():
    raw = encode_block(block_of(SetInfo())).raw
    expected = Multihash.of(b"something else")
    with pytest.raises(HashMismatch) as caught:
        decode_block(raw, expected=expected)
    assert caught.value.expected == expected


def test_the_versions_differ_in_the_alignment_of_timestamps():
    two, three = (encode_block(block_of(SetInfo(description="foo")), v) for v in (2, 3))
    assert two.hash != three.hash
    assert decode_block(two.raw).block == decode_block(three.raw).block


@pytest.mark.parametrize(("version", "word"), [(1, "obsolete"), (4, "unsupported"), (0, "unsup")])
def test_other_versions_are_refused_by_name(version, word):
    content = encode_root("MetadataBlock", block_of(SetInfo()))
    with refusing("UnsupportedBlockVersion", match=word):
        decode_block(framed(content, version=version))


def test_a_manifest_of_another_kind_is_refused():
    content = encode_root("MetadataBlock", block_of(SetInfo()))
    with refusing("MalformedBlock", match="kind"):
        decode_block(framed(content, kind=0x400001))


@pytest.mark.parametrize("cut", [0, 1, 4, 20, 60, 119])
def test_a_block_cut_short_is_refused(cut):
    raw = encode_block(block_of(SetInfo(description="foo"))).raw
    with refusing("MalformedBlock"):
        decode_block(raw[:cut])


SLICE_WITHOUT_HASH = DataSlice(
    logical_hash=None,
    physical_hash=Multihash.of(b""),
    offset_interval=OffsetInterval(start=0, end=0),
    size=0,
)


@pytest.mark.parametrize(
    "event",
    [Seed(dataset_id=None, dataset_kind=DatasetKind.Root), AddData(new_data=SLICE_WITHOUT_HASH)],
    ids=["no dataset id", "no logical hash"],
)
def test_a_table_without_what_it_requires_is_refused(event, monkeypatch):
    lax = {n: tuple(Field(f.name, f.wire, f.of) for f in fs) for n, fs in TABLES.items()}
    monkeypatch.setattr(encode, "TABLES", lax)
    with refusing("MalformedBlock", match="required"):
        decode_block(encode_block(block_of(event)).raw)


class SetInfoOfTomorrow(Variant, tag="SetInfo", frozen=True, kw_only=True):
    """SetInfo as a newer writer may have it."""

    description: str | None = None
    keywords: tuple[str, ...] | None = None
    language: str | None = None


class SetMood(Variant, tag="SetMood", frozen=True, kw_only=True):
    """An event that does not exist yet."""

    mood: str


@pytest.fixture
def tomorrow(monkeypatch):
    """Our writer, as if it knew more."""
    tables = {
        **TABLES,
        "SetInfo": (*TABLES["SetInfo"], Field("language", "string")),
        "SetMood": (Field("mood", "string", required=True),),
        "DataTypeMood": (),
    }
    unions = {
        **UNIONS,
        "MetadataEvent": (*UNIONS["MetadataEvent"], "SetMood"),
        "DataType": (*UNIONS["DataType"], "DataTypeMood"),
    }
    units = ("Second", "Millisecond", "Microsecond", "Nanosecond", "Picosecond")
    monkeypatch.setattr(encode, "TABLES", tables)
    monkeypatch.setattr(encode, "UNIONS", unions)
    monkeypatch.setattr(encode, "ENUMS", {**encode.ENUMS, "TimeUnit": ("i16", units)})


def test_an_event_of_a_newer_writer_is_kept_as_unknown(tomorrow):
    encoded = encode_block(block_of(SetMood(mood="good")))
    decoded = decode_block(encoded.raw, expected=encoded.hash)
    assert decoded.raw == encoded.raw
    assert decoded.sequence_number == 7
    assert decoded.block.system_time == NOON
    assert isinstance(decoded.event, UnknownEvent)
    assert (decoded.event.discriminator, decoded.event.name) == (14, None)


def test_a_newer_field_makes_the_event_unknown_and_names_it(tomorrow):
    value = SetInfoOfTomorrow(description="d", language="en")
    value = _renamed(value, "SetInfo")
    decoded = decode_block(encode_block(block_of(value)).raw)
    assert isinstance(decoded.event, UnknownEvent)
    assert (decoded.event.discriminator, decoded.event.name) == (8, "SetInfo")
    assert "slot 2" in decoded.event.detail


def test_a_newer_field_that_is_not_set_changes_nothing(tomorrow):
    value = _renamed(SetInfoOfTomorrow(description="d"), "SetInfo")
    assert decode_block(encode_block(block_of(value)).raw).event == SetInfo(description="d")


def test_a_newer_data_type_makes_the_event_unknown(tomorrow):
    mood = _renamed(DataTypeBool(), "DataTypeMood")
    schema = DataSchema(fields=(DataField(name="x", type=DataTypeList(item_type=mood)),))
    decoded = decode_block(encode_block(block_of(SetDataSchema(schema=schema))).raw)
    assert isinstance(decoded.event, UnknownEvent)
    assert decoded.event.name == "SetDataSchema"
    assert decoded.event.detail == "variant 25 of DataType"


def test_a_newer_enum_value_makes_the_event_unknown(tomorrow):
    schema = DataSchema(fields=(DataField(name="x", type=DataTypeTime(unit="Picosecond")),))
    decoded = decode_block(encode_block(block_of(SetDataSchema(schema=schema))).raw)
    assert isinstance(decoded.event, UnknownEvent)
    assert decoded.event.detail == "value 4 of TimeUnit"


def test_an_unknown_event_is_shown_but_never_written(tomorrow):
    decoded = decode_block(encode_block(block_of(SetMood(mood="good"))).raw)
    shown = block_manifest(decoded)["content"]["event"]
    assert shown["kind"] == "Unknown"
    with pytest.raises(Unencodable):
        encode_block(decoded.block)
    with pytest.raises(NodeError):
        block_from_manifest(block_manifest(decoded))


def _renamed(value, name: str):
    """The same value under the name a table has on the wire."""
    kind = type(name, (type(value),), {}, frozen=True, kw_only=True)
    return kind(**{field: getattr(value, field) for field in value.__struct_fields__})


def _schema_nested(levels: int) -> MetadataBlock:
    inner = DataTypeBool()
    for _ in range(levels):
        inner = DataTypeList(item_type=inner)
    return block_of(SetDataSchema(schema=DataSchema(fields=(DataField(name="x", type=inner),))))


def test_nesting_is_bounded_when_writing_and_when_reading(monkeypatch):
    sound = _schema_nested(MAX_DEPTH - 5)
    assert decode_block(encode_block(sound).raw).block == sound
    with pytest.raises(Unencodable, match="deeper"):
        encode_block(_schema_nested(MAX_DEPTH))
    monkeypatch.setattr(encode, "MAX_DEPTH", 1000)
    with refusing("MalformedBlock", match="deeper"):
        decode_block(encode_block(_schema_nested(200)).raw)


def _info_with_shared_keyword(times: int, keyword: str) -> bytes:
    builder = Builder(1024)
    shared = builder.CreateString(keyword)
    builder.StartVector(4, times, 4)
    for _ in range(times):
        builder.PrependUOffsetTRelative(shared)
    keywords = builder.EndVector()
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(1, keywords, 0)
    info = builder.EndObject()
    builder.StartObject(5)
    builder.PrependUint32(0)
    builder.PrependUint32(0)
    builder.PrependUint32(1)
    builder.PrependInt32(2050)
    builder.Slot(0)
    builder.PrependUint8Slot(3, 8, 0)
    builder.PrependUOffsetTRelativeSlot(4, info, 0)
    builder.Finish(builder.EndObject())
    return framed(bytes(builder.Output()))


def test_an_attribute_map_above_the_limit_is_not_written_nor_read_nor_parsed(monkeypatch):
    event = AddData(extra=Attributes('{"a":[' + "{}," * MAX_BYTES + "{}]}"))
    with pytest.raises(Unencodable, match=str(MAX_BYTES)):
        encode_block(block_of(event))
    monkeypatch.setattr(encode, "MAX_BYTES", 8 * MAX_BYTES)
    block = encode_block(block_of(event))
    tracemalloc.start()
    with refusing("MalformedBlock", match=str(MAX_BYTES)):
        decode_block(block.raw)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * len(block.raw)


def test_a_block_above_the_limit_is_neither_written_nor_read():
    room = MAX_BLOCK_BYTES - len(encode_block(block_of(SetInfo(description="a" * 4))).raw) + 4
    whole = encode_block(block_of(SetInfo(description="a" * room)))
    assert decode_block(whole.raw) == whole
    assert len(whole.raw) == MAX_BLOCK_BYTES
    with refusing("BlockTooLarge"):
        encode_block(block_of(SetInfo(description="a" * (room + 64))))
    for read in (decode_block, peek_block):
        with refusing("BlockTooLarge"):
            read(whole.raw + b"\0")


def test_a_small_block_that_shares_parts_to_become_huge_is_refused():
    with refusing("MalformedBlock", match=f"shared more than {MAX_SHARING} times"):
        decode_block(_info_with_shared_keyword(20_000, "x" * 20_000))


@pytest.mark.parametrize(
    "event",
    [
        AddData(prev_offset=2**64),
        AddData(prev_offset=10**5000),
        AddData(prev_offset=-1),
        AddData(prev_offset=True),
        AddData(prev_offset=1.0),
        AddData(prev_offset="1"),
        AddData(new_watermark="2050-01-01T12:00:00Z"),
        AddData(prev_checkpoint="f1620"),
        SetInfo(description=b"bytes"),
        SetInfo(description="lone \ud800 surrogate"),
        SetInfo(keywords="abc"),
        SetInfo(keywords=("a", 1)),
        Seed(dataset_id=DatasetId(b"k" * 32), dataset_kind="Sideways"),
        Seed(dataset_id=None, dataset_kind=DatasetKind.Root),
        SetDataSchema(schema=DataField(name="x", type=DataTypeBool())),
        SetDataSchema(
            schema=DataSchema(
                fields=(DataField(name="x", type=DataTypeDecimal(precision=2**32, scale=0)),)
            )
        ),
        None,
        "event",
    ],
)
def test_values_the_wire_cannot_carry_are_refused(event):
    with pytest.raises(Unencodable):
        encode_block(block_of(event))


def test_zero_is_not_the_same_as_unset():
    zero, unset = block_of(AddData(prev_offset=0)), block_of(AddData())
    assert encode_block(zero).raw != encode_block(unset).raw
    assert decode_block(encode_block(zero).raw).event == AddData(prev_offset=0)


def test_empty_is_not_the_same_as_unset():
    empty, unset = block_of(SetInfo(description="", keywords=())), block_of(SetInfo())
    assert encode_block(empty).raw != encode_block(unset).raw
    assert decode_block(encode_block(empty).raw).event == SetInfo(description="", keywords=())


def _read(raw: bytes) -> object:
    """What becomes of bytes: the block, or the error they are refused with."""
    try:
        return decode_block(raw)
    except NodeError as refused:
        return type(refused)


def test_a_head_that_was_read_before_says_the_same_of_changed_and_of_short_bytes(monkeypatch):
    whole = [
        encode_block(block_of(SetInfo(description="x" * length)), version).raw
        for length in range(9)
        for version in (2, 3)
    ]
    raw = whole[0]
    changed = [
        raw[:at] + bytes([raw[at] ^ flip]) + raw[at + 1 :] for at in range(64) for flip in (1, 255)
    ]
    tried = [*whole, *changed, *(raw[:length] for length in range(len(raw)))]
    cold = []
    for candidate in tried:
        monkeypatch.setattr(blocks, "_heads", {})
        monkeypatch.setattr(blocks, "_head_lengths", ())
        cold.append(_read(candidate))
    monkeypatch.setattr(blocks, "_heads", {})
    assert [_read(candidate) for candidate in whole] == cold[: len(whole)]
    assert blocks._heads
    assert [_read(candidate) for candidate in tried] == cold
    assert len(blocks._heads) <= blocks.HEADS_KEPT


def test_a_head_with_something_of_it_behind_the_content_is_not_remembered(monkeypatch):
    """A manifest whose vtable comes last: its bytes before the content do not say everything."""
    content = encode_root("MetadataBlock", block_of(SetInfo(description="x")))
    table = struct.pack("<I", 4) + b"\0" * 4 + struct.pack("<qiI", METADATA_BLOCK_CODE, 3, 4)
    vector = struct.pack("<I", len(content)) + content
    vtable_at = len(table) + len(vector)
    vtable = struct.pack("<HHHHH", 10, 20, 4, 12, 16)
    raw = table[:4] + struct.pack("<i", 4 - vtable_at) + table[8:] + vector + vtable
    monkeypatch.setattr(blocks, "_heads", {})
    monkeypatch.setattr(blocks, "_head_lengths", ())
    assert decode_block(raw).event == SetInfo(description="x")
    assert blocks._heads == {}
