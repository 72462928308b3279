"""The real client of DuckLake: DuckDB with its extension of packages beside its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from plain_values import plain
from service import Service

duckdb = pytest.importorskip("duckdb")
for each in ("httpfs", "ducklake"):
    pytest.importorskip(f"duckdb_extension_{each}", reason=f"needs duckdb-extension-{each}")


def lake(service: Service, token: str | None = None, **asked: Any) -> dict[str, Any]:
    """What the node says of its lake."""
    with service.http(token) as http:
        answer = http.get("/ducklake", params=asked)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


@contextmanager
def duck(service: Service, token: str | None = None, attach: str = "") -> Iterator[Any]:
    """A connection of DuckDB to which the lake of now is attached as `odf`."""
    with duckdb.connect(config={"autoload_known_extensions": False}) as db:
        for name in ("httpfs", "ducklake"):
            folder = Path(import_module(f"duckdb_extension_{name}").__file__ or "").parent
            db.load_extension(str(next(folder.rglob("*.duckdb_extension"))))
        db.execute("SET TimeZone = 'UTC'")
        if token is not None:
            scope = f"SCOPE '{service.url}'"
            db.execute(f"CREATE SECRET node (TYPE http, BEARER_TOKEN '{token}', {scope})")
        db.execute(attach or lake(service, token)["attach"])
        yield db


def found(db: Any, query: str) -> list[list[Any]]:
    """The rows of an answer."""
    return [[plain(value) for value in row] for row in db.execute(query).fetchall()]
