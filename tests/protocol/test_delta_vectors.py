"""Deletion vectors and schemas of Delta, read back by an independent reader of the format."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from odf_protocol.delta.schemas import DeltaSchema
from odf_protocol.delta.vectors import inline_vectors, portable, z85
from odf_protocol.delta.vectors import positions as positions_in
from odf_protocol.metadata import schema as odf
from odf_protocol.metadata.schema import DataField, DataSchema

RANDOM = np.random.default_rng(7)


def positions_of(raw: bytes) -> list[int]:
    """By the text of the format's specification."""
    found, at = [], 8
    for _ in range(struct.unpack_from("<Q", raw)[0]):
        high, cookie, count = struct.unpack_from("<III", raw, at)
        assert cookie == 12346
        start, at = at + 4, at + 12
        heads = [struct.unpack_from("<HH", raw, at + 4 * each) for each in range(count)]
        at += 4 * count
        offsets = struct.unpack_from(f"<{count}I", raw, at)
        at += 4 * count
        for (key, less), offset in zip(heads, offsets, strict=True):
            assert at == start + offset
            if less < 4096:
                values = np.frombuffer(raw, "<u2", less + 1, at)
                at += 2 * (less + 1)
            else:
                bits = np.frombuffer(raw, np.uint8, 8192, at)
                values = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
                assert len(values) == less + 1
                at += 8192
            found += [(high << 32) + (key << 16) + int(value) for value in values]
    assert at == len(raw)
    return found


@pytest.mark.parametrize(
    "positions",
    [
        [],
        [0],
        [1, 2, 3],
        [65535, 65536],
        range(4096),
        range(4097),
        range(0, 200_000, 2),
        [5, 70_000, 1 << 33, (1 << 33) + 1],
        np.flatnonzero(RANDOM.random(300_000) < 0.02).tolist(),
    ],
)
def test_a_bitmap_holds_its_positions(positions):
    wanted = list(positions)
    bitmap = portable(np.array(wanted, np.int64))
    assert positions_of(bitmap) == wanted
    assert positions_in(bitmap).tolist() == wanted


def test_a_vector_says_its_length_and_number():
    bitmap = portable(np.array([1, 5], np.int64))
    [told] = inline_vectors([(bitmap, 2)])
    assert (told["storageType"], told["cardinality"]) == ("i", 2)
    assert told["sizeInBytes"] == len(bitmap) + 4
    assert len(str(told["pathOrInlineDv"])) == -(-(len(bitmap) + 4) // 4) * 5


def test_z85_is_that_of_its_specification():
    assert z85(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"


def test_types_that_delta_lacks_are_named_by_their_column():
    fields = (
        DataField(name="a", type=odf.DataTypeInt64()),
        DataField(name="b", type=odf.DataTypeOption(inner=odf.DataTypeUInt32())),
        DataField(name="c", type=odf.DataTypeDecimal(precision=50, scale=2)),
        DataField(name="d", type=odf.DataTypeList(item_type=odf.DataTypeTime())),
    )
    schema = DeltaSchema(DataSchema(fields=fields))
    assert schema.foreign == ["b", "c", "d"]
    told = {field["name"]: field["type"] for field in json.loads(schema.text)["fields"]}
    assert (told["a"], told["b"]) == ("long", "long")


def test_a_local_time_is_one_for_readers_that_know_it():
    local = DataSchema(fields=(DataField(name="t", type=odf.DataTypeTimestamp(timezone="")),))
    told = DeltaSchema(local)
    assert told.has_local_times
    assert "timestamp_ntz" in told.text
    assert "timestamp_ntz" not in DeltaSchema(local, plain=True).text


def test_every_type_of_odf_has_a_name():
    nested = {
        odf.DataTypeDecimal: odf.DataTypeDecimal(precision=10, scale=2),
        odf.DataTypeList: odf.DataTypeList(item_type=odf.DataTypeInt8()),
        odf.DataTypeMap: odf.DataTypeMap(
            key_type=odf.DataTypeString(), value_type=odf.DataTypeInt8()
        ),
        odf.DataTypeOption: odf.DataTypeOption(inner=odf.DataTypeInt8()),
        odf.DataTypeStruct: odf.DataTypeStruct(fields=()),
    }
    kinds = odf.DataType.__args__
    fields = tuple(
        DataField(name=str(number), type=nested.get(kind) or kind())
        for number, kind in enumerate(kinds)
    )
    assert len(json.loads(DeltaSchema(DataSchema(fields=fields)).text)["fields"]) == len(kinds)
