"""The job queue keeps its promises in memory, SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import sqlalchemy as sa
from chain_maker import chain, entry, some_id
from index_parts import ManualClock

from protocol.multihash import Multihash
from storage.index.sql import SqlDatasetRegistry
from storage.jobs import sql_submit
from storage.jobs.memory import MemoryJobQueue
from storage.jobs.sql import SqlJobQueue
from storage.ports import JobQueue
from storage.trouble import DatabaseUnavailable
from storage.values import AccountId, JobSpec, RequestKey
from tests.conformance.job_queue import JobQueueContract, RequestContract


class TestMemoryJobQueue(JobQueueContract, RequestContract):
    @pytest.fixture
    def queue(self, clock: ManualClock) -> JobQueue:
        return MemoryJobQueue(clock=clock)


class TestSqlJobQueue(JobQueueContract, RequestContract):
    @pytest.fixture
    def queue(self, database: sa.Engine, clock: ManualClock) -> JobQueue:
        created = replace(entry(), id=some_id())
        blocks, _ = chain(created.id)
        SqlDatasetRegistry(database).create(created, blocks=blocks)
        return SqlJobQueue(database, clock=clock)

    def test_a_database_that_goes_away_is_told_to_all_who_submit_together(
        self, queue: SqlJobQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who comes after the one that met it would work in a broken transaction."""
        met = []

        def gone(*_: object) -> None:
            met.append(1)
            raise DatabaseUnavailable

        monkeypatch.setattr(sql_submit, "_request_job", gone)
        told: list[BaseException] = []

        def submit(number: int) -> None:
            key = RequestKey(
                some_id(), AccountId("a"), f"key {number}", Multihash.of(b""), clock.now
            )
            with pytest.raises(DatabaseUnavailable) as trouble:
                queue.submit_request(JobSpec("ingest", some_id(), {}), key)
            told.append(trouble.value)

        submitters = [threading.Thread(target=submit, args=(number,)) for number in range(4)]
        with queue._submitter._writing:  # so that they come together
            for each in submitters:
                each.start()
            while len(queue._submitter._queue) < len(submitters):
                pass
        for each in submitters:
            each.join()
        assert len(told) == len(submitters)
        assert len(met) == 1
