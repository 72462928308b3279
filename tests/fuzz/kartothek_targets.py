"""Fuzz targets of Kartothek datasets: state files, schema files, keys of data files, addresses."""

from __future__ import annotations

import contextlib
from urllib.parse import quote

import pyarrow as pa

from odf_protocol.errors import NodeError
from odf_protocol.kartothek.keys import checked_data_key, checked_uuid, partition_texts, state_keys
from odf_protocol.kartothek.partition_values import (
    decode_schema,
    encode_schema,
    table_schema,
    value_of,
)
from odf_protocol.kartothek.source import SCHEMES, parse_address
from odf_protocol.kartothek.state import decode_json, decode_msgpack, encode_json

TYPES = (
    pa.bool_(), pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.binary(), pa.date32(),
    pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.decimal128(10, 2),
)  # fmt: skip


def fuzz_kartothek_state(data: bytes) -> None:
    """Whatever is read means the same when written anew, and names no file outside."""
    for decode in (decode_json, decode_msgpack):
        try:
            state = decode(data, key="u.json", uuid="u")
        except NodeError:
            continue
        assert decode_json(encode_json(state), key="u.json", uuid="u").tables() == state.tables()
        for files in (state.partitions or {}).values():
            assert all(not key.startswith("/") for key in files.values())


def fuzz_kartothek_schema(data: bytes) -> None:
    """Whatever is read can be written as a schema of ours."""
    with contextlib.suppress(NodeError):
        schema = decode_schema(data, "u/table/_common_metadata")
        again = table_schema(schema)
        assert decode_schema(encode_schema(again), "k").names == again.names


def fuzz_kartothek_key(data: bytes) -> None:
    """Whatever stands in a key has a value of each type, or is refused."""
    with contextlib.suppress(NodeError):
        key = checked_data_key(data.decode("utf-8", "surrogateescape"), "fuzz")
        for _, text in partition_texts(key):
            for wanted in TYPES:
                with contextlib.suppress(NodeError):
                    assert value_of(text, wanted, key).type == wanted


def fuzz_kartothek_address(data: bytes) -> None:
    """Whatever is read names one dataset in a store of a known kind, and leads nowhere else."""
    with contextlib.suppress(NodeError):
        found = parse_address(data.decode("utf-8", "surrogateescape"))
        assert f"kartothek+{found.scheme}" in SCHEMES
        assert state_keys(checked_uuid(found.uuid))
        assert not found.store.endswith("/") or found.store.endswith("://")
        query = "" if found.table is None else f"?table={quote(found.table, safe='')}"
        assert parse_address(f"kartothek+{found.store}/{found.uuid}{query}") == found
