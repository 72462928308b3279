"""Datasets as tables of DataFusion: the changelog as in the files, and views of it.

A table is a folder of links, which is empty while the query is planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from datafusion import SessionContext

from odf_protocol.float_columns import has_floats
from odf_storage.datasets.query.links import table_folder
from odf_storage.datasets.query.messages import Table
from odf_storage.datasets.query.tables import base_name

from ..engines.datafusion.rows import quoted
from ..engines.port.views import columns_of, view_sql


def register(context: SessionContext, tables: Sequence[Table], links: Path) -> None:
    """Register the tables, which have no rows yet."""
    for number, table in enumerate(tables):
        base = base_name(table, number)
        columns = columns_of(table)
        context.register_parquet(
            quoted(base),
            f"{table_folder(links, number)}/",
            schema=columns,
            parquet_pruning=not has_floats(columns),
        )
        for name, view in table.names.items():
            if name != base:
                rows = context.sql(view_sql(view, table, base, quoted))
                context.register_view(quoted(name), rows)


def base_names(tables: Sequence[Table]) -> dict[str, int]:
    """Return the names of changelogs in plans, with the number of the table."""
    return {base_name(table, number): number for number, table in enumerate(tables)}


def view_names(tables: Sequence[Table]) -> frozenset[str]:
    return frozenset(name for table in tables for name in table.names)
