"""Two datasets that every client is tried on: many slices of many types with nulls, and one whose
rows were retracted and corrected.

`ODF_TORTURE=1` makes a thousand slices, and `make torture` tries all clients on them.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
from plain_values import plain
from service import Service
from table_made import ITEMS, TableMade, item

from odf_storage.stores.ports.values import Visibility

MANY, TAKEN = "many", "taken"
SLICES = 1_000 if os.environ.get("ODF_TORTURE") else 300
"""Several manifests of Iceberg and hundreds of requests, either way."""
_A, _R, _C, _D = range(4)


def make_door_tables(service: Service) -> None:
    """Both are public."""
    stores, public = service.node.stores, Visibility.PUBLIC
    many = TableMade(stores, f"kamu/{MANY}", ITEMS, visibility=public)
    many.add_blocks([[item(at)] for at in range(SLICES)])
    taken = TableMade(stores, f"kamu/{TAKEN}", ITEMS, key=["id"], visibility=public)
    taken.add([item(number) for number in range(6)])
    taken.add([item(3), item(3, name="other")], [_C, _D])
    taken.add([item(1), item(7)], [_R, _A])


def read_rows(service: Service, name: str, projection: str) -> list[dict[str, Any]]:
    """By `GET …/read`."""
    with service.http() as http:
        asked = {"format": "arrow", "projection": projection}
        answer = http.get(f"/{name}/read", params=asked)
    assert answer.status_code == 200, answer.text
    return in_order(pa.ipc.open_stream(answer.content).read_all().to_pylist())


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as any client gives them, by offset, with values in one form."""
    told = [{str(name): plain(value) for name, value in row.items()} for row in rows]
    return sorted(told, key=lambda row: row["offset"])


def frame_rows(frame: Any) -> list[dict[str, Any]]:
    """Of pandas."""
    columns = {str(name): frame[name].tolist() for name in frame.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
