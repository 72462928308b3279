"""The job queue keeps its promises on SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa
from chain_maker import chain, entry, some_id
from index_parts import ManualClock
from tests.conformance.job_queue import JobQueueContract
from tests.conformance.job_requests import RequestContract
from tests.conformance.job_turns import JobTurnsContract

from odf_protocol.multihash import Multihash
from odf_storage.stores.index.sql import DatasetRegistry
from odf_storage.stores.jobs import sql_submit
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.objects.layout import DatabaseUnavailable
from odf_storage.stores.ports.values import Account, AccountId, JobSpec, RequestKey
from odf_storage.stores.registers.accounts.accounts import AccountStore


class TestSqlJobQueue(JobQueueContract, JobTurnsContract, RequestContract):
    @pytest.fixture
    def queue(self, database: sa.Engine, clock: ManualClock) -> JobQueue:
        created = replace(entry(), id=some_id())
        blocks, _ = chain(created.id)
        DatasetRegistry(database).create(created, blocks=blocks)
        return JobQueue(database, clock=clock)

    def test_jobs_nobody_asked_for_take_the_turn_of_the_owner_of_their_dataset(
        self, database: sa.Engine, queue: JobQueue
    ) -> None:
        bob = AccountId("did:odf:bob")
        AccountStore(database).put_account(Account(bob, "Bob"))
        bobs = [entry(f"bob/d{n}") for n in range(20)]
        for each in bobs:
            DatasetRegistry(database).create(each, blocks=chain(each.id)[0])
            queue.submit(JobSpec("transform", each.id, {}, lock=str(each.id)))
        queue.submit(JobSpec("transform", None, {}, account=bob))
        asked = queue.submit(JobSpec("transform", None, {}, account=AccountId("alice")))
        first, second = (
            queue.claim(f"w{n}", ["transform"], lease=timedelta(seconds=30)) for n in range(2)
        )
        assert first is not None
        assert second is not None
        assert (first.spec.dataset, second.id) == (bobs[0].id, asked)

    def test_a_database_that_goes_away_is_told_to_all_who_submit_together(
        self, queue: JobQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
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
                queue.submit_all([(JobSpec("ingest", some_id(), {}), key)])
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
