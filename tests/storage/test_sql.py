"""Schema, migrations and connections of both databases."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from chain_maker import chain, entry
from refusals import refusing

from odf_protocol.identity import DatasetRef
from odf_protocol.instant import Instant
from odf_storage.stores.index.sql import DatasetRegistry
from odf_storage.stores.sql.engine import open_engine, reading, sqlite_url, storable, writing
from odf_storage.stores.sql.migrate import LATEST, current, migrate, revert
from odf_storage.stores.sql.tables import InstantColumn, metadata, moves

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a database without tables."""
    if request.param == "postgres":
        return str(request.getfixturevalue("empty_postgres_url"))
    return sqlite_url(tmp_path / "empty.db")


def table_names(engine: sa.Engine) -> set[str]:
    return set(sa.inspect(engine).get_table_names()) - {"alembic_version"}


def test_migrations_go_up_down_and_up_again(empty: str) -> None:
    engine = open_engine(empty)
    for _ in range(2):
        migrate(engine)
        assert table_names(engine) == set(metadata.tables)
        migrate(engine)
        revert(engine)
        assert table_names(engine) == set()
    engine.dispose()


def test_tables_and_migrations_agree(empty: str) -> None:
    engine = open_engine(empty)
    migrate(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_the_newest_migration_is_the_one_a_start_looks_for(empty: str) -> None:
    engine = open_engine(empty)
    assert current(engine) is None
    migrate(engine, "heads")  # not the short cut of an ordinary start
    assert current(engine) == LATEST
    engine.dispose()


def test_a_schema_of_a_later_version_is_left_as_it_is(empty: str) -> None:
    engine = open_engine(empty)
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("update alembic_version set version_num = '9999'"))
        connection.execute(sa.text("alter table datasets add column later varchar(10)"))
    migrate(engine)
    assert current(engine) == "9999"
    DatasetRegistry(engine).create(made := entry("kamu/foo"), blocks=chain(made.id)[0])
    assert DatasetRegistry(engine).get(DatasetRef(id=made.id)) == made
    engine.dispose()


def test_the_migration_makes_columns_keys_and_indexes_as_the_tables_declare_them(
    empty: str,
) -> None:
    """What the comparison of alembic does not look at: the databases' own definitions."""
    engine = open_engine(empty)
    migrate(engine)
    migrated = _definitions(engine)
    revert(engine)
    metadata.create_all(engine)
    assert migrated == _definitions(engine)
    assert {row[0] for row in migrated["counters"]} == COUNTERS[engine.dialect.name]
    assert len(migrated["columns"]) == sum(len(table.columns) for table in metadata.tables.values())
    engine.dispose()


_COUNTED = {"moves", "unlogged_heads", "jobs", "deeds", "webhook_attempts", "attestations"}
COUNTERS = {"sqlite": _COUNTED, "postgresql": {f"{name}_number_seq" for name in _COUNTED}}
_DEFINITIONS = {
    "sqlite": {
        "columns": "SELECT m.name, c.* FROM sqlite_master m, pragma_table_xinfo(m.name) c"
        " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%'",
        "keys": "SELECT m.name, k.'table', k.'from', k.'to', k.on_delete"
        " FROM sqlite_master m, pragma_foreign_key_list(m.name) k WHERE m.type = 'table'",
        "unique": "SELECT m.name, i.origin, i.partial, c.seqno, c.name FROM sqlite_master m,"
        " pragma_index_list(m.name) i, pragma_index_info(i.name) c WHERE m.type = 'table'",
        "indexes": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
        "counters": "SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'",
    },
    "postgresql": {
        "columns": "SELECT table_name, ordinal_position, column_name, data_type, is_nullable,"
        " character_maximum_length, collation_name, column_default"
        " FROM information_schema.columns WHERE table_schema = 'public'",
        "keys": "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)"
        " FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 0",
        "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "counters": "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'",
    },
}


def _definitions(engine: sa.Engine) -> dict[str, list[tuple[object, ...]]]:
    with engine.connect() as connection:
        found = {
            name: sorted(tuple(row) for row in connection.exec_driver_sql(query))
            for name, query in _DEFINITIONS[engine.dialect.name].items()
        }
    return {
        name: [row for row in rows if not str(row[0]).startswith("alembic")]
        for name, rows in found.items()
    }


@pytest.mark.parametrize("schema", ["0001", "0017"])
def test_a_schema_of_a_version_before_the_first_is_refused_and_left_as_it_is(
    empty: str, schema: str
) -> None:
    engine = open_engine(empty)
    with engine.begin() as connection:
        connection.execute(sa.text("create table alembic_version (version_num varchar(32))"))
        connection.execute(sa.text(f"insert into alembic_version values ('{schema}')"))
    with refusing("DatabaseTooOld", match=f"has schema {schema} .* `odf-node index rebuild`"):
        migrate(engine)
    assert current(engine) == schema
    assert table_names(engine) == set()
    engine.dispose()


def test_several_processes_may_migrate_at_once(empty: str) -> None:
    program = (
        "import sys; from odf_storage.stores.sql.engine import open_engine; "
        "from odf_storage.stores.sql.migrate import migrate; migrate(open_engine(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, empty]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    engine = open_engine(empty)
    assert table_names(engine) == set(metadata.tables)
    engine.dispose()


def test_sqlite_writers_wait_for_each_other_instead_of_failing(tmp_path: Path) -> None:
    engine = open_engine(sqlite_url(tmp_path / "test.db"))
    migrate(engine)
    query, ready = sa.select(sa.func.count()).select_from(moves), threading.Barrier(4)

    def read_then_write(name: str) -> None:
        ready.wait()
        for _ in range(5):
            with writing(engine) as connection:
                count = connection.execute(query).scalar_one()
                text = "INSERT INTO moves (dataset, ref, new, at) VALUES (?, ?, ?, ?)"
                connection.exec_driver_sql(text, (b"", name, b"", str(count)))

    writers = [threading.Thread(target=read_then_write, args=(f"w{n}",)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    with reading(engine) as connection:
        stamps = connection.exec_driver_sql("SELECT at FROM moves ORDER BY number").scalars().all()
    assert stamps == [str(number) for number in range(20)]
    engine.dispose()


def test_sqlite_is_opened_durable_with_a_log_and_keys(tmp_path: Path) -> None:
    engine = open_engine(sqlite_url(tmp_path / "test.db"))
    with engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 30_000,
    }
    engine.dispose()


@pytest.mark.parametrize(
    "url", ["mysql://secret@host/db", "nonsense secret", "", "sqlite://", "sqlite:///:memory:"]
)
def test_other_databases_are_refused_without_repeating_the_url(url: str) -> None:
    with refusing("UnknownDatabase") as refused:
        open_engine(url)
    assert "secret" not in refused.value.message


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql_urls_of_any_spelling_use_one_driver(scheme: str) -> None:
    engine = open_engine(f"{scheme}://me@localhost/db")
    assert engine.url.drivername == "postgresql+psycopg"
    engine.dispose()


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999999999Z",
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:00:00.000000001Z",
        "2026-11-21T10:00:00.12Z",
        "9999-12-31T23:59:59.999999999Z",
    ],
)
def test_instants_are_kept_to_the_nanosecond(database: sa.Engine, text: str) -> None:
    when = Instant.parse(text)
    with database.connect() as connection:
        kept = connection.execute(sa.select(sa.literal(when, InstantColumn))).scalar_one()
    assert kept == when


def test_kept_instants_sort_by_time() -> None:
    column, dialect = InstantColumn(), sa.create_engine("sqlite://").dialect
    times = [Instant(ns) for ns in (-(10**18), -1, 0, 1, 10**9 - 1, 10**9, 17 * 10**17)]
    texts = [str(column.process_bind_param(when, dialect)) for when in times]
    assert texts == sorted(texts)
    assert {len(text) for text in texts} == {30}


@pytest.mark.parametrize(
    ("text", "fits"), [("é", True), ("", True), ("a\0", False), ("\ud800", False)]
)
def test_text_no_database_can_hold_is_told_apart(text: str, fits: bool) -> None:
    assert storable(text) is fits


def test_statements_are_not_prepared_where_the_address_says_so(empty_postgres_url: str) -> None:
    engine = open_engine(f"{empty_postgres_url}?prepare_threshold=none")
    with engine.connect() as connection:
        for _ in range(8):  # the driver would begin with the sixth
            connection.execute(sa.text("SELECT 1"))
        names = sa.text("SELECT count(*) FROM pg_prepared_statements")
        assert connection.scalar(names) == 0
    engine.dispose()


def test_no_other_number_of_uses_can_be_given() -> None:
    with refusing("UnknownDatabase", match="prepare_threshold"):
        open_engine("postgresql://host/name?prepare_threshold=x")
