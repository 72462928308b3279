"""Logical hashes of table files for `odf-node hash`: Parquet and both Arrow IPC forms."""

from __future__ import annotations

import os
from typing import BinaryIO

import pyarrow as pa

from odf_protocol.columns.arrow_columns import SliceDigest
from odf_protocol.columns.arrow_digest import logical_hash
from odf_protocol.columns.slice_file import open_slice
from odf_protocol.errors import BadInput
from odf_protocol.multihash import Multihash
from odf_storage.lanes import expect, hash_all

PARQUET_MAGIC, IPC_FILE_MAGIC = b"PAR1", b"ARROW1"


def logical_hash_of_stream(stream: BinaryIO) -> Multihash:
    """Return the logical hash of a table file.

    The magic bytes decide: Parquet, Arrow IPC file, else Arrow IPC stream.

    Raises:
        UnreadableTable: the file has none of these formats.
        UnsupportedColumn: a column has a type without logical hash.
    """
    try:
        return _logical_hash(stream)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            "UnreadableTable", f"neither a Parquet nor an Arrow IPC file: {error}"
        ) from error


def _logical_hash(stream: BinaryIO) -> Multihash:
    source = pa.BufferReader(stream.read()) if not stream.seekable() else stream
    expect(source.seek(0, os.SEEK_END))
    source.seek(0)
    magic = source.read(len(IPC_FILE_MAGIC))
    source.seek(0)
    if magic.startswith(PARQUET_MAGIC):
        digest = SliceDigest(open_slice(source), source)
        return digest.finish(hash_all(digest.streams))
    if magic == IPC_FILE_MAGIC:
        reader = pa.ipc.open_file(source)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        return logical_hash(batches, reader.schema)
    with pa.ipc.open_stream(source) as ipc:
        return logical_hash(ipc, ipc.schema)
