"""Parquet files whose footers lie, as a stranger may send them."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 500


def many_kinds() -> pa.Table:
    """Numbers, texts, lists and structs."""
    return pa.table(
        {
            "n": pa.array(range(ROWS)),
            "s": [f"city {at % 5}" for at in range(ROWS)],
            "l": [["a", str(at)] for at in range(ROWS)],
            "d": pa.array([{"a": at, "b": at % 3 or None} for at in range(ROWS)]),
        }
    )


def written(table: pa.Table, **options: object) -> bytes:
    pq.write_table(table, out := io.BytesIO(), **options)
    return out.getvalue()


def harmed(whole: bytes, count: int, seed: int = 31) -> Iterator[bytes]:
    """So many files, a few bytes of whose footers were changed."""
    footer, chance = int.from_bytes(whole[-8:-4], "little"), random.Random(seed)
    for _ in range(count):
        made = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 8))):
            at = chance.randrange(len(whole) - 8 - footer, len(whole) - 4)
            made[at] = chance.randrange(256)
        yield bytes(made)


def deadly(whole: bytes, column: str) -> bytes:
    """The same file, whose footer takes back that this column may hold nulls. Its statistics count
    them still, over which Arrow ends the process that asks for the column's chunk."""
    name = bytes([0x18, len(column)]) + column.encode()
    assert whole.count(b"\x25\x02" + name) == 1
    return whole.replace(b"\x25\x02" + name, b"\x25\x00" + name)
