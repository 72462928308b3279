"""Registry, references and blocks keep their promises on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa
from chain_maker import NOON, chain, entry, some_id
from index_parts import Index
from tests.conformance.block_index import BlockIndexContract, BlocksBehindContract
from tests.conformance.ref_index import RefIndexContract
from tests.conformance.registry import RegistryContract, register

from odf_protocol.identity import DatasetAlias
from odf_protocol.instant import Instant
from odf_storage.stores.index import sql, sql_blocks
from odf_storage.stores.index.sql import DatasetRegistry
from odf_storage.stores.index.sql_blocks import SqlBlockIndex
from odf_storage.stores.index.sql_disclosures import Disclosures
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.errors import BlockDamaged, JobNotFound, LeaseLost
from odf_storage.stores.ports.values import (
    JobId,
    JobSpec,
    JobStatus,
    Succeeded,
    Variable,
    Visibility,
)
from odf_storage.stores.registers.datasets.schedules import Variables
from odf_storage.stores.sql.tables import blocks as block_rows


class TestRegistry(RegistryContract):
    def test_the_newest_former_names_are_kept(
        self, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sql, "MOST_FORMER_NAMES", 2)
        [created] = register(index, "kamu/a")
        for name in ("kamu/b", "kamu/c", "kamu/d"):
            index.registry.rename(created.id, DatasetAlias.parse(name))
        kept = [index.registry.find_former(DatasetAlias.parse(f"kamu/{name}")) for name in "abc"]
        assert [each is not None for each in kept] == [False, True, True]


class TestRefIndex(RefIndexContract):
    pass


class TestBlockIndex(BlockIndexContract):
    @pytest.fixture(autouse=True)
    def _small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql_blocks, "LINEAGE_FIRST_PAGE", 2)
        monkeypatch.setattr(sql_blocks, "LINEAGE_PAGE", 5)
        monkeypatch.setattr(sql_blocks, "INSERT_BATCH", 7)


class TestBlocksBehind(BlocksBehindContract):
    @pytest.fixture
    def reads(self, database: sa.Engine) -> SqlBlockIndex:
        return SqlBlockIndex(database)


def test_a_block_damaged_in_the_database_is_reported_and_not_served(database: sa.Engine) -> None:
    created = entry()
    blocks, _ = chain(created.id)
    DatasetRegistry(database).create(created, blocks=blocks)
    with database.begin() as connection:
        connection.execute(sa.update(block_rows).values(raw=blocks[0].raw[:-1] + b"\x01"))
    with pytest.raises(BlockDamaged):
        SqlBlockIndex(database).find(created.id, blocks[0].hash)


# --- what a dataset leaves to the next one of its id ------------------------------------------

LEASE = timedelta(seconds=30)
ID = entry().id
OTHER = some_id("other")


@pytest.fixture
def registry(database: sa.Engine) -> DatasetRegistry:
    made = DatasetRegistry(database)
    made.create(entry(), blocks=chain(ID)[0])
    made.create(entry("kamu/other", dataset=OTHER), blocks=chain(OTHER)[0])
    return made


@pytest.fixture
def queue(database: sa.Engine) -> JobQueue:
    return JobQueue(database)


def again(registry: DatasetRegistry) -> None:
    """Somebody else creates a dataset of the same id."""
    registry.create(entry("bob/mine", dataset=ID), blocks=chain(ID)[0])


def claimed(queue: JobQueue) -> JobId:
    job = queue.claim("w", ["ingest"], lease=LEASE)
    assert job is not None
    return job.id


def test_a_dataset_created_again_gets_no_variables_of_the_one_before(
    database: sa.Engine, registry: DatasetRegistry
) -> None:
    variables = Variables(database)
    secret = Variable(name="TOKEN", is_secret=True, value=b"sealed", updated_at=NOON, key_id="k")
    for owner in (str(ID), str(OTHER), "did:odf:alice"):
        variables.put(owner, secret)
    registry.forget(ID)
    assert variables.owners() == sorted([str(OTHER), "did:odf:alice"])
    again(registry)
    assert variables.of_owner(str(ID)) == {}


def test_what_everybody_was_told_stays_in_the_order_of_its_changes(
    database: sa.Engine, registry: DatasetRegistry
) -> None:
    told, everything = (Disclosures(database, everything=each) for each in (False, True))
    assert told.page(limit=9) == []
    assert {each.dataset for each in everything.page(limit=9)} == {ID, OTHER}
    for dataset in (OTHER, ID):
        registry.set_visibility(dataset, Visibility.PUBLIC)
    registry.forget(OTHER)
    registry.set_visibility(ID, Visibility.PRIVATE)
    first, last = told.page(limit=9)
    assert {first.dataset, last.dataset} == {ID, OTHER}
    assert told.page(limit=1) == [first]
    assert told.page(after=first, limit=9) == [last]
    assert told.page(since=first.at, before=Instant(last.at.ns + 1), limit=9) == [first, last]
    assert told.page(before=first.at, limit=9) == []
    assert told.find(OTHER) in (first, last)


def test_ended_jobs_go_with_their_dataset_and_the_rows_they_rejected(
    registry: DatasetRegistry, queue: JobQueue
) -> None:
    for dataset in (ID, OTHER):
        queue.submit(JobSpec("ingest", dataset, {}, lock=str(dataset)))
    ours, others = claimed(queue), claimed(queue)
    for job in (ours, others):
        queue.finish(job, "w", Succeeded({"rows": 1}, rejected=b"private"))
    registry.forget(ID)
    again(registry)
    assert [job.id for job in queue.page()] == [others]
    assert (queue.rejected(ours), queue.rejected(others)) == (None, b"private")
    with pytest.raises(JobNotFound):
        queue.get(ours)


def test_a_post_that_waits_is_not_ingested_by_the_next_dataset_of_the_id(
    registry: DatasetRegistry, queue: JobQueue
) -> None:
    waiting = queue.submit(JobSpec("ingest", ID, {}, lock=str(ID), body=b"posted by alice"))
    registry.forget(ID)
    again(registry)
    assert queue.claim("w", ["ingest"], lease=LEASE) is None
    assert list(queue.page(dataset=ID)) == []
    assert queue.get(waiting).status is JobStatus.CANCELLED


def test_a_worker_loses_the_job_of_a_forgotten_dataset_and_its_lock_is_free(
    registry: DatasetRegistry, queue: JobQueue
) -> None:
    queue.submit(JobSpec("ingest", ID, {}, lock=str(ID), dedup_key="d"))
    running = claimed(queue)
    registry.forget(ID)
    again(registry)
    with pytest.raises(LeaseLost):
        queue.extend(running, "w", lease=LEASE)
    with pytest.raises(LeaseLost):
        queue.finish(running, "w", Succeeded({"rows": 1}, rejected=b"private"))
    new = queue.submit(JobSpec("ingest", ID, {}, lock=str(ID), dedup_key="d"))
    assert claimed(queue) == new


def test_what_late_requests_add_to_a_forgotten_dataset_is_not_for_the_next_one(
    database: sa.Engine, registry: DatasetRegistry, queue: JobQueue
) -> None:
    registry.forget(ID)
    variables = Variables(database)
    late = Variable(name="TOKEN", is_secret=False, value=b"late", updated_at=NOON)
    variables.put(str(ID), late)
    queue.submit(JobSpec("ingest", ID, {}, lock=str(ID), body=b"late"))
    again(registry)
    assert variables.owners() == []
    assert queue.claim("w", ["ingest"], lease=LEASE) is None
