"""Datasets to look at: many kinds of columns, many columns, hostile words, rows taken back."""

from __future__ import annotations

import datetime
import io
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from service import NOON, Chain, seeded

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.metadata.events import (
    AttachmentEmbedded,
    AttachmentsEmbedded,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
)

EVIL = "<script>alert(1)</script>"
CITIES = ("Reykjavík", "Oslo", "Málaga", "Graz")
SYSTEM = 4
"""Columns of the system, which have no nulls."""
UTC = pa.timestamp("ms", "UTC")
README = """# Stations

Hourly values of **four** stations, as they were measured.

| column | unit |
|---|---|
| temp | °C |
| rain | mm |
"""


def of_table(columns: dict[str, Any], ops: list[int] | None = None) -> Chain:
    """A chain of one slice: these columns behind those of the system."""
    return added(seeded(), columns, ops)


def added(chain: Chain, columns: dict[str, Any], ops: list[int] | None = None) -> Chain:
    """One more slice; the first brings the schema."""
    arrays = {
        name: values if isinstance(values, pa.Array) else pa.array(values)
        for name, values in columns.items()
    }
    count, start = len(next(iter(arrays.values()))), chain.state.next_offset
    table = pa.table(
        {
            "offset": pa.array(range(start, start + count), pa.int64()),
            "op": pa.array(ops or [0] * count, pa.int32()),
            "system_time": pa.array([NOON.millis] * count, UTC),
            "event_time": pa.array([NOON.millis + 3_600_000 * n for n in range(count)], UTC),
            **arrays,
        }
    )
    required = [field.with_nullable(n >= SYSTEM) for n, field in enumerate(table.schema)]
    table = table.cast(pa.schema(required))
    if chain.state.data_schema is None:
        chain.add(SetDataSchema(schema=from_arrow(table.schema)))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return chain.add_slice(sink.getvalue(), count, checkpoint=b"state" * 20)


def stations(count: int = 300) -> Chain:
    """Numbers, decimals, texts, times, nested columns and nulls, with words about them."""
    chance = random.Random(7)
    chain = seeded().add(
        SetInfo(description="Weather of four stations", keywords=("weather", "hourly")),
        SetLicense(short_name="CC-BY-4.0", name="CC BY", website_url="https://example.org/by"),
        SetAttachments(
            attachments=AttachmentsEmbedded(
                items=(AttachmentEmbedded(path="README.md", content=README),)
            )
        ),
    )
    return added(chain, _measured(chance, count)).add(
        SetInfo(description="Weather of four stations, by the hour", keywords=("weather", "hourly"))
    )


def _measured(chance: random.Random, count: int) -> dict[str, Any]:
    day = datetime.date(2050, 1, 1)
    return {
        "station": pa.array([chance.choice(CITIES) for _ in range(count)]),
        "temp": pa.array(
            [None if n % 17 == 0 else round(chance.gauss(9, 6), 1) for n in range(count)]
        ),
        "rain": pa.array(
            [
                Decimal(round(chance.expovariate(1), 2)).quantize(Decimal("0.01"))
                for _ in range(count)
            ],
            pa.decimal128(9, 2),
        ),
        "day": pa.array([day + datetime.timedelta(n // 24) for n in range(count)]),
        "is_checked": pa.array([n % 3 == 0 for n in range(count)]),
        "position": pa.array(
            [{"lat": 60.1, "lon": 24.9}] * count,
            pa.struct([("lat", pa.float64()), ("lon", pa.float64())]),
        ),
        "tags": pa.array([["a", "b"]] * count, pa.list_(pa.string())),
    }


def corrected() -> Chain:
    """Five rows, of which one is corrected and one retracted."""
    return of_table(
        {"city": ["a", "b", "c", "b", "b", "c"], "people": [1, 2, 3, 2, 20, 3]},
        [0, 0, 0, 2, 3, 1],
    )


def wide(columns: int = 200, rows: int = 30) -> Chain:
    return of_table({f"column_{n:03}": [n * row for row in range(rows)] for n in range(columns)})


def hostile() -> Chain:
    """Markup wherever strangers write: cells, columns, description, keywords, documents."""
    chain = seeded().add(
        SetInfo(description=EVIL, keywords=(EVIL, '" onmouseover="alert(1)')),
        SetLicense(short_name=EVIL, name=EVIL, website_url="javascript:alert(1)"),
        SetAttachments(
            attachments=AttachmentsEmbedded(
                items=(
                    AttachmentEmbedded(
                        path="README.md", content=f"# {EVIL}\n\n[x](javascript:alert(1))"
                    ),
                    AttachmentEmbedded(path=EVIL, content=EVIL + "x" * 5000),
                )
            )
        ),
    )
    cells = {
        EVIL: [EVIL, '"><img src=x onerror=alert(1)>', "‮evil", "x" * 500],
        "{{ 7 * 7 }}": ["{{ 7 * 7 }}"] * 4,
    }
    return added(chain, cells).add(SetInfo(description=EVIL + EVIL))
