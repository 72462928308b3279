"""Failed logins in a database: counted together by all who use it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from chain_maker import NOON
from tests.storage.conftest import DATABASES, database_url

from odf_protocol.instant import NANOS, Instant
from odf_storage.stores.registers.accounts.accounts import LoginAttempts
from odf_storage.stores.sql.engine import open_engine

MINUTE = timedelta(minutes=1)
OWN, SHARED = b"own", b"shared"
LIMITS = {OWN: 2, SHARED: 3}


@pytest.fixture(params=DATABASES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    opened = open_engine(database_url(request.param, request, tmp_path), durable=False)
    yield opened
    opened.dispose()


def later(seconds: float) -> Instant:
    return Instant(NOON.ns + int(seconds * NANOS))


def test_what_is_above_a_limit_is_told_how_long_and_counts_no_more(engine: sa.Engine) -> None:
    one, other = LoginAttempts(engine), LoginAttempts(engine)
    assert one.count(LIMITS, NOON, MINUTE) is None
    assert other.count(LIMITS, later(10), MINUTE) is None
    for _ in range(3):
        assert one.count(LIMITS, later(20), MINUTE) == 40
    assert one.count({b"another": 2, SHARED: 3}, later(20), MINUTE) is None
    assert other.count({b"a third": 2, SHARED: 3}, later(20), MINUTE) == 40


def test_windows_end_and_leave_nothing(engine: sa.Engine) -> None:
    attempts = LoginAttempts(engine)
    for _ in range(2):
        attempts.count(LIMITS, NOON, MINUTE)
    assert attempts.count(LIMITS, later(59.9), MINUTE) is not None
    assert attempts.count(LIMITS, later(60), MINUTE) is None
    attempts.count({b"x": 1}, later(1000), MINUTE)
    assert attempts.kept() == 1


def test_what_is_forgiven_counts_no_more(engine: sa.Engine) -> None:
    attempts = LoginAttempts(engine)
    for _ in range(2):
        attempts.count(LIMITS, NOON, MINUTE)
    attempts.forgive(OWN, [SHARED])
    attempts.forgive(OWN, [SHARED])
    for _ in range(2):
        assert attempts.count(LIMITS, NOON, MINUTE) is None


def test_many_at_once_are_counted_one_by_one(engine: sa.Engine) -> None:
    attempts, passed = LoginAttempts(engine), []
    limits = {b"a": 5, b"b": 100}

    def guess() -> None:
        if attempts.count(limits, NOON, MINUTE) is None:
            passed.append(1)

    threads = [threading.Thread(target=guess) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 5
