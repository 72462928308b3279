"""Locks on PostgreSQL: one holder at a time, in a transaction, gone with their connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from chain_maker import some_id

from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.runtime.locks import PostgresLocks
from odf_storage.stores.objects.layout import DatabaseUnavailable
from odf_storage.stores.sql.engine import open_engine, reading

DATASET = some_id("locked")


@pytest.fixture
def engine(postgres_url: str) -> Iterator[sa.Engine]:
    engine = open_engine(postgres_url, pooled=False)
    yield engine
    engine.dispose()


def holders(engine: sa.Engine) -> list[str]:
    """What the sessions that hold an advisory lock are doing."""
    query = (
        "SELECT state FROM pg_stat_activity JOIN pg_locks USING (pid) "
        "WHERE locktype = 'advisory' AND granted"
    )
    with reading(engine) as db:
        return list(db.execute(sa.text(query)).scalars())


def test_a_lock_lives_in_a_transaction_so_that_poolers_keep_its_connection(
    engine: sa.Engine,
) -> None:
    before = holders(engine)
    with PostgresLocks(engine).hold(DATASET):
        assert sorted([*before, "idle in transaction"]) == sorted(holders(engine))
    assert holders(engine) == before


def test_a_second_holder_waits_for_the_first(engine: sa.Engine) -> None:
    locks, held = PostgresLocks(engine), threading.Event()

    def second() -> None:
        with PostgresLocks(engine).hold(DATASET):
            held.set()

    with locks.hold(DATASET):
        waiting = threading.Thread(target=second)
        waiting.start()
        assert not held.wait(0.3)
    assert held.wait(60)
    waiting.join()


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    locks = PostgresLocks(open_engine("postgresql://127.0.0.1:1/none", pooled=False))
    with pytest.raises(DatabaseUnavailable), locks.hold(DATASET):
        pass


def test_a_node_locks_as_its_database_url_says_however_busy_its_pool_is(
    empty_postgres_url: str, tmp_path: Path
) -> None:
    settings = StoreSettings(
        data=tmp_path, database_url=f"{empty_postgres_url}?prepare_threshold=none"
    )
    stores = open_stores(settings)
    engine = stores.engine
    assert engine is not None
    with ExitStack() as busy:
        for _ in range(30):
            busy.enter_context(engine.connect())
        with stores.locks.hold(DATASET):
            pass
    stores.close()
