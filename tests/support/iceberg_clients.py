"""The real clients of Iceberg: pyiceberg, DuckDB with its extensions, Polars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
from plain_values import plain
from pyiceberg.catalog import Catalog, load_catalog
from service import Service

EXTENSIONS = ("httpfs", "avro", "iceberg")


def catalogue(service: Service, token: str | None, **given: Any) -> Catalog:
    """The catalogue of pyiceberg."""
    carried = {} if token is None else {"token": token}
    return load_catalog("odf", type="rest", uri=f"{service.url}/iceberg", **carried, **given)


def rows(table: Any) -> list[list[Any]]:
    """Of an Arrow table, by offset, each with its columns in order."""
    sorted_rows = table.sort_by("offset").to_pylist() if table.num_rows else []
    return [[plain(value) for value in row.values()] for row in sorted_rows]


def loaded(catalog: Catalog, name: str, **asked: Any) -> list[list[Any]]:
    """All rows of a table."""
    return rows(catalog.load_table(name).scan(**asked).to_arrow())


def load_extensions(db: Any) -> None:
    """Those that DuckDB reads a catalogue by, of packages beside its own."""
    for name in EXTENSIONS:
        folder = Path(import_module(f"duckdb_extension_{name}").__file__ or "").parent
        db.load_extension(str(next(folder.rglob("*.duckdb_extension"))))


@contextmanager
def duck(service: Service, token: str | None, warehouse: str = "") -> Iterator[Any]:
    """A connection of DuckDB to which the catalogue is attached as `odf`."""
    with duckdb.connect() as db:
        load_extensions(db)
        db.execute("SET TimeZone = 'UTC'")
        how = "AUTHORIZATION_TYPE 'none'"
        if token is not None:
            db.execute(f"CREATE SECRET odf_secret (TYPE iceberg, TOKEN '{token}')")
            how = "SECRET odf_secret"
        db.execute(
            f"ATTACH '{warehouse}' AS odf (TYPE iceberg, ENDPOINT '{service.url}/iceberg', {how})"
        )
        yield db
