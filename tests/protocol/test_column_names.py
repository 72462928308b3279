"""What is said of columns: where it is kept, and how much of it is shown."""

from __future__ import annotations

import pytest
from refusals import refusing

from odf_protocol.codec.blocks import decode_block, encode_block
from odf_protocol.codec.manifests import load_event, to_data, to_yaml
from odf_protocol.columns.column_names import (
    DESCRIPTION_KEY,
    MAX_DESCRIPTION_CHARS,
    UNIT_KEY,
    ColumnTexts,
    bare_unit,
    described,
    plain_unit,
    texts_in,
    texts_of,
    with_attributes_of,
    with_units_of,
)
from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import MetadataBlock, SetDataSchema
from odf_protocol.metadata.schema import DataField, DataSchema, DataTypeInt64, DataTypeString
from odf_protocol.multihash import Multihash


def column(name: str = "t", **extra: object) -> DataField:
    return DataField(name=name, type=DataTypeInt64(), extra=Attributes.of(extra))


def test_texts_are_read_from_the_attributes_of_a_column():
    said = column(**{DESCRIPTION_KEY: "Air temperature", UNIT_KEY: "°C", "other": 1})
    assert texts_of(said) == ColumnTexts("Air temperature", "°C")
    assert texts_of(said).line == "Air temperature (°C)"
    assert texts_of(column(**{UNIT_KEY: "°C"})).line == "(°C)"
    plain = DataField(name="plain", type=DataTypeString())
    assert texts_in(DataSchema(fields=(said, plain))) == {"t": texts_of(said)}
    assert texts_in(None) == {}


@pytest.mark.parametrize("strange", [1, None, ["a"], {"a": "b"}, True])
def test_what_is_no_text_says_nothing(strange):
    assert not texts_of(column(**{DESCRIPTION_KEY: strange, UNIT_KEY: strange}))


def test_attributes_that_are_no_json_say_nothing():
    bad = DataField(name="t", type=DataTypeInt64(), extra=Attributes(f"{DESCRIPTION_KEY}: x"))
    assert not texts_of(bad)


def test_long_texts_of_strangers_are_cut_and_become_one_line():
    said = texts_of(column(**{DESCRIPTION_KEY: "a\n\tb " + "x" * 5000, UNIT_KEY: "y" * 999}))
    assert said.description.startswith("a b xxx")
    assert len(said.description) == MAX_DESCRIPTION_CHARS
    assert len(said.unit) == 50


def test_a_column_keeps_its_other_attributes_and_what_is_not_named():
    field = {"name": "t", "type": {"kind": "Int64"}, "extra": {"a": [1], UNIT_KEY: "K"}}
    new = described(field, {DESCRIPTION_KEY: "Warm"})
    assert new["extra"] == {"a": [1], UNIT_KEY: "K", DESCRIPTION_KEY: "Warm"}
    assert described(new, {UNIT_KEY: ""})["extra"] == {"a": [1], DESCRIPTION_KEY: "Warm"}
    bare = {"name": "t", "type": {"kind": "Int64"}}
    assert described(described(bare, {UNIT_KEY: "K"}), {UNIT_KEY: ""}) == bare


@pytest.mark.parametrize("text", ["x" * 1001, "a\nb", "a\x00b", "a\u202eb"])
def test_a_text_of_several_lines_or_too_long_is_refused(text):
    with refusing("MalformedColumnText"):
        described({"name": "t", "type": {"kind": "Int64"}}, {DESCRIPTION_KEY: text})


def test_a_block_and_a_manifest_carry_the_texts_byte_for_byte():
    said = column(**{DESCRIPTION_KEY: 'a "b" ü\u2028', UNIT_KEY: "µg/m³", "z": 1.0})
    event = SetDataSchema(schema=DataSchema(fields=(said,)))
    block = MetadataBlock(
        system_time=Instant(0), prev_block_hash=Multihash.of(b""), sequence_number=1, event=event
    )
    raw = encode_block(block).raw
    read = decode_block(raw)
    assert read.event == event
    assert encode_block(read.block).raw == raw
    assert load_event(to_yaml(to_data(event)).encode()) == event


def test_columns_of_a_new_schema_have_the_attributes_of_their_namesakes():
    before = (column("a", x=1), column("b", x=2))
    bare = [DataField(name=name, type=DataTypeInt64()) for name in "abc"]
    after = with_attributes_of(DataSchema(fields=tuple(bare)), before)
    assert [each.extra for each in after.fields] == [before[0].extra, before[1].extra, None]


def test_a_unit_is_compared_without_brackets_and_in_one_form_of_its_characters() -> None:
    assert bare_unit(" [µg/m³] ") == "µg/m³"
    assert plain_unit("[\u00b5g/m³]") == plain_unit("(\u03bcg/m3) ") != plain_unit("mg/m3")
    assert [bare_unit(text) for text in ("", "[]", "(", "°C")] == ["", "[]", "(", "°C"]


def test_columns_of_a_dataset_have_the_units_that_its_source_declares() -> None:
    plain = DataSchema(fields=(column(), DataField(name="u", type=DataTypeInt64())))
    source = DataSchema(
        fields=(column(**{UNIT_KEY: "K"}), DataField(name="x", type=DataTypeInt64()))
    )
    assert texts_in(with_units_of(plain, source))["t"].unit == "K"
    assert with_units_of(plain, plain) is with_units_of(plain, None) is plain
