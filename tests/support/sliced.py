"""Datasets in memory, slice by slice, with every kind of value; and filters to ask of them."""

from __future__ import annotations

import io
import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.chain.state import Vocab
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DataSlice, OffsetInterval
from odf_protocol.multihash import Multihash
from odf_storage.datasets.pruning.filters import Filter
from odf_storage.datasets.pruning.learned import Bounds
from odf_storage.datasets.read.read import RowsRequest, narrowed_for, rows_of
from odf_storage.datasets.read.scan import KnownBounds
from odf_storage.datasets.read.view import View

A, R, C, D = range(4)
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("op", pa.int32()),
        ("system_time", pa.timestamp("ms", "UTC")),
        ("event_time", pa.timestamp("ms", "UTC")),
        ("city", pa.string()),
        ("pop", pa.int32()),
        ("rate", pa.float32()),
        ("day", pa.date32()),
        ("price", pa.decimal128(9, 2)),
        ("is_big", pa.bool_()),
        ("raw", pa.binary()),
    ]
)
VALUES: dict[str, list[Any]] = {
    "city": [None, "", "a", "b", "Ä/ö %", "x" * 300],
    "pop": [None, -3, 0, 5, 2**31 - 1],
    "rate": [None, math.nan, -0.0, 0.0, 0.1, 2.5, math.inf, -math.inf],
    "day": [None, date(1969, 12, 31), date(2024, 2, 29)],
    "price": [None, Decimal("-1.50"), Decimal("0.00"), Decimal("99.99")],
    "is_big": [None, True, False],
    "raw": [None, b"", b"\x00\xff"],
}
TEXTS: dict[str, list[str]] = {
    "city": ["", "a", "b", "Ä/ö %", "zzz", "x" * 300],
    "pop": ["-3", "0", "5", "7", "2147483647"],
    "rate": ["nan", "-0.0", "0", "0.1", "2.5", "inf", "1e3"],
    "day": ["1969-12-31", "2024-02-29", "2024-03-01"],
    "price": ["-1.50", "0", "99.99", "5.1"],
    "is_big": ["true", "False"],
    "raw": ["", "00ff", "01"],
    "offset": ["0", "3", "11", "400"],
    "op": ["0", "1"],
    "event_time": ["2024-01-01T00:00:03Z", "2024-01-02T00:00:00.500Z"],
    "system_time": ["2024-01-01T00:00:02Z"],
}


class Source:
    """Objects in memory, and how many were opened."""

    def __init__(self) -> None:
        self.objects: dict[Multihash, bytes] = {}
        self.opened: list[Multihash] = []

    def head(self) -> Multihash:
        return Multihash.of(b"head")

    def block_bytes(self, block: Multihash) -> bytes:
        raise NotImplementedError

    def open_object(self, kind: Any, name: Multihash) -> io.BytesIO:
        self.opened.append(name)
        return io.BytesIO(self.objects[name])


def view_of_slices(
    slices: list[list[dict[str, Any]]], key: tuple[str, ...] = ()
) -> tuple[View, Source]:
    """A dataset of these rows; offsets and system times are given to them."""
    source, parts, offset = Source(), [], 0
    for number, rows in enumerate(slices):
        told = FIRST + timedelta(seconds=number)
        whole = [{"offset": offset + at, "system_time": told, **row} for at, row in enumerate(rows)]
        raw = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(whole, SCHEMA), raw)
        name = Multihash.of(raw.getvalue())
        source.objects[name] = raw.getvalue()
        interval = OffsetInterval(start=offset, end=offset + len(rows) - 1)
        data = DataSlice(
            logical_hash=name, physical_hash=name, offset_interval=interval, size=raw.tell()
        )
        parts.append((data, Instant(int(told.timestamp()) * 10**9)))
        offset += len(rows)
    view = View(
        source=source,
        head=source.head(),
        vocab=Vocab(),
        schema=SCHEMA,
        slices=tuple(parts),
        key=key,
    )
    return view, source


def random_slices(chance: random.Random, count: int = 6) -> list[list[dict[str, Any]]]:
    """A changelog: rows that are taken back are taken back as a whole."""
    slices, standing = [], []
    for number in range(count):
        few = {name: chance.sample(values, 2) for name, values in VALUES.items()}
        rows: list[dict[str, Any]] = []
        for _ in range(chance.randint(1, 6)):
            if standing and chance.random() < 0.3:
                row = standing.pop(chance.randrange(len(standing)))
                rows.append({**row, "op": R})
                continue
            row = {name: chance.choice(values) for name, values in few.items()}
            row["event_time"] = FIRST + timedelta(seconds=chance.randint(0, 5) + number)
            standing.append(row)
            rows.append({**row, "op": A})
        slices.append(rows)
    return slices


def random_filters(chance: random.Random) -> tuple[Filter, ...]:
    filters = []
    for _ in range(chance.randint(1, 3)):
        column = chance.choice(list(TEXTS))
        operator = chance.choice(
            ["eq", "eq", "in", "lt", "le", "gt", "ge", "ne", "null", "notnull"]
        )
        if column == "is_big" and operator in ("lt", "le", "gt", "ge"):
            operator = "eq"
        some = chance.sample(TEXTS[column], min(2, len(TEXTS[column])))
        values = {"in": some, "null": [], "notnull": []}.get(operator, some[:1])
        filters.append(Filter(column, operator, tuple(values)))
    return tuple(filters)


def learned(view: View) -> KnownBounds:
    """Bounds of all columns, as they go to a reader: through JSON."""
    bounds: dict[str, list[Bounds | None]] = {}
    for name in VALUES:
        asked = RowsRequest(filters=(Filter(name, "notnull"),))
        narrow = narrowed_for(view, asked)
        with rows_of(narrow, asked) as (_, batches):
            list(batches)
        found = [narrow.learned.get((str(each.physical_hash), name)) for each, _ in view.slices]
        bounds[name] = msgspec.json.decode(msgspec.json.encode(found), type=list[Bounds | None])
    return KnownBounds(bounds=bounds)
