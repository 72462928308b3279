"""The job queue keeps its promises in memory, SQLite and PostgreSQL."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from index_parts import ManualClock

from storage.jobs.memory import MemoryJobQueue
from storage.jobs.sql import SqlJobQueue
from storage.ports import JobQueue
from tests.conformance.job_queue import JobQueueContract


class TestMemoryJobQueue(JobQueueContract):
    @pytest.fixture
    def queue(self, clock: ManualClock) -> JobQueue:
        return MemoryJobQueue(clock=clock)


class TestSqlJobQueue(JobQueueContract):
    @pytest.fixture
    def queue(self, database: sa.Engine, clock: ManualClock) -> JobQueue:
        return SqlJobQueue(database, clock=clock)
