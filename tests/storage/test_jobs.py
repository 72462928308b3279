"""The job queue keeps its promises in memory, SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa
from chain_maker import chain, entry, some_id
from index_parts import ManualClock

from storage.index.sql import SqlDatasetRegistry
from storage.jobs.memory import MemoryJobQueue
from storage.jobs.sql import SqlJobQueue
from storage.ports import JobQueue
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
