"""While a node is upgraded, the version before goes on serving on the schema after.

So a migration only adds: tables, columns that need no value, indexes. What is not needed any
more goes a version later. Here the statements of the version before are those of its tables as
they stood: every column it knows is written and read on the newest schema.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import sqlalchemy as sa

import odf_migrations as migrations
from odf_storage.stores.sql.engine import open_engine, sqlite_url
from odf_storage.stores.sql.migrate import FIRST, LATEST, migrate

VERSIONS = sorted(Path(str(migrations.__file__)).parent.glob("versions/0*.py"))
REVISIONS = [path.name[:4] for path in VERSIONS]
SUBTRACTING = {"drop_table", "drop_column", "drop_constraint", "rename_table"}


def test_the_oldest_and_the_newest_revision_are_those_that_starts_look_for() -> None:
    assert (REVISIONS[0], REVISIONS[-1]) == (FIRST, LATEST)


@pytest.mark.parametrize("path", VERSIONS, ids=REVISIONS)
def test_an_upgrade_takes_nothing_away(path: Path) -> None:
    tree = ast.parse(path.read_text())
    upgrade = next(
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "upgrade"
    )
    calls = {node.attr for node in ast.walk(upgrade) if isinstance(node, ast.Attribute)}
    assert calls & SUBTRACTING == set()


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_rows_as_the_versions_before_write_them_are_taken_by_the_newest_schema(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if database == "sqlite":
        url = sqlite_url(tmp_path / "index.db")
    else:
        url = request.getfixturevalue("empty_postgres_url")
    engine = open_engine(url, durable=False)
    seen: dict[str, dict[str, dict[str, object]]] = {}
    for revision in REVISIONS:
        migrate(engine, revision)
        seen[revision] = _columns(engine)
    newest = seen[REVISIONS[-1]]
    for revision, tables in seen.items():
        for table, columns in tables.items():
            assert table in newest, f"{table} of {revision} is gone"
            for name, kind in columns.items():
                assert newest[table].get(name, {}).get("type") == kind["type"], (revision, table)
            unknown = newest[table].keys() - columns.keys()
            demanding = {name for name in unknown if newest[table][name]["needed"]}
            assert demanding == set(), f"what {revision} inserts into {table} lacks {demanding}"
    engine.dispose()


def _columns(engine: sa.Engine) -> dict[str, dict[str, dict[str, object]]]:
    found = sa.inspect(engine)
    return {
        table: {
            column["name"]: {
                "type": str(column["type"]),
                "needed": not column["nullable"]
                and column["default"] is None
                and column.get("autoincrement") is not True,
            }
            for column in found.get_columns(table)
        }
        for table in found.get_table_names()
    }
