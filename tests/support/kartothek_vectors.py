"""The Kartothek datasets of `tests/vectors/kartothek`, which the real library wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from known import FOLDER

KARTOTHEK = FOLDER / "kartothek"


def state_files() -> Iterator[tuple[str, Path]]:
    """Uuid and path of each state file."""
    for path in sorted(KARTOTHEK.rglob("*.by-dataset-metadata.*")):
        yield path.name.partition(".")[0], path


def expectations() -> Iterator[dict[str, Any]]:
    """What each dataset has: store, uuid, table, partition columns, rows."""
    for path in sorted((KARTOTHEK / "expected").glob("*.json")):
        if path.stem != "inventory-steps":
            yield json.loads(path.read_text())


def spelled(value: Any) -> Any:
    """A value as the expectations spell it."""
    match value:
        case datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
            return text if value.tzinfo is None else f"{text}Z"
        case date():
            return value.isoformat()
        case bytes():
            return f"hex:{value.hex()}"
        case Decimal():
            return str(value)
        case list():
            return [spelled(each) for each in value]
        case float() if value != value:
            return None
    return value


def in_any_order(rows: list[dict[str, Any]]) -> list[str]:
    """Rows to compare, whatever their order."""
    return sorted(
        json.dumps({name: spelled(value) for name, value in row.items()}, sort_keys=True)
        for row in rows
    )
