"""Changelogs as inputs, and what is expected of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.workers.engine.requests import SYSTEM

APPEND, RETRACT, WAS, NOW_IS = range(4)
DAY = 86_400_000


def schema(*data: pa.Field) -> pa.Schema:
    return pa.schema([*SYSTEM, *data])


CITIES = schema(pa.field("city", pa.string()), pa.field("n", pa.int64()))


def cities(*rows: tuple[int, str, int], start: int = 0) -> pa.Table:
    """Rows (operation, city, n) of `CITIES`, event times a day apart."""
    count = len(rows)
    columns = [
        pa.array(range(start, start + count), pa.int64()),
        pa.array([op for op, _, _ in rows], pa.int32()),
        pa.array([0] * count, SYSTEM[2].type),
        pa.array([(start + at) * DAY for at in range(count)], SYSTEM[3].type),
        pa.array([city for _, city, _ in rows], pa.string()),
        pa.array([n for _, _, n in rows], pa.int64()),
    ]
    return pa.Table.from_arrays(columns, schema=CITIES)


def listed(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in table.to_pylist()]
