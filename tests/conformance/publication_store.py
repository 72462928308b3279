"""What a store of publications promises. Subclasses give `stores`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chain_maker import NOON, some_id
from refusals import refusing
from tests.conformance.access_stores import dataset

from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import DatasetNotFound
from odf_storage.stores.ports.following import Problem
from odf_storage.stores.ports.publications import PublishedDataset
from odf_storage.stores.ports.values import JobId

LATER = Instant(NOON.ns + 60 * NANOS)
JOB, OTHER = JobId("1-a"), JobId("2-b")
PROBLEM = Problem("PublicationConflict", "somebody else wrote it", {"key": "u"})


def publication(of: DatasetId, uuid: str = "u", store: str | None = None) -> PublishedDataset:
    return PublishedDataset(dataset=of, uuid=uuid, store=store, definition={"mode": "state"})


class PublicationStoreContract:
    def test_a_publication_is_found_as_it_was_put(self, stores: Stores) -> None:
        made = publication(dataset(stores))
        assert stores.publications.find(made.dataset) is None
        stores.publications.put(made)
        assert stores.publications.find(made.dataset) == replace(made, version=1)

    def test_the_one_that_the_node_serves_is_found_by_its_name(self, stores: Stores) -> None:
        mine, other = dataset(stores), dataset(stores, "other")
        stores.publications.put(publication(mine, "u"))
        stores.publications.put(publication(other, "v", "file:///shop"))
        found = stores.publications.served_as("u")
        assert found is not None
        assert found.dataset == mine
        assert stores.publications.served_as("v") is None

    def test_names_in_a_store_do_not_begin_with_each_other(self, stores: Stores) -> None:
        mine, other = dataset(stores), dataset(stores, "other")
        stores.publications.put(publication(mine, "shop"))
        for uuid in ("shop", "sho", "shops"):
            with refusing("PublicationNameTaken"):
                stores.publications.put(publication(other, uuid))
        stores.publications.put(publication(other, "shop", "file:///elsewhere"))
        stores.publications.put(publication(mine, "shop"))

    def test_a_head_that_was_not_tried_is_due_until_it_is_submitted(self, stores: Stores) -> None:
        mine = dataset(stores)
        head = stores.refs.head(mine)
        stores.publications.put(publication(mine))
        [(due, its_head)] = stores.publications.due(now=NOON)
        assert (due.dataset, its_head) == (mine, head)
        stores.publications.submitted(mine, version=1, job=JOB, head=head)
        assert stores.publications.due(now=NOON) == []
        assert [row.job for row in stores.publications.at_work()] == [JOB]
        stores.publications.ended(mine, job=JOB, shown={"head": str(head)}, head=head)
        assert stores.publications.due(now=NOON) == []
        found = stores.publications.find(mine)
        assert found is not None
        assert (found.job, found.shown, found.tried_head) == (None, {"head": str(head)}, head)

    def test_a_job_that_became_due_replaces_none_that_was_asked_for(self, stores: Stores) -> None:
        mine = dataset(stores)
        head = stores.refs.head(mine)
        stores.publications.put(publication(mine))
        for job in (JOB, OTHER):
            stores.publications.submitted(mine, version=1, job=job, head=head, if_due=True)
        assert [row.job for row in stores.publications.at_work()] == [JOB]
        stores.publications.ended(mine, job=JOB, shown={}, head=head)
        stores.publications.submitted(mine, version=1, job=OTHER, head=head, if_due=True)
        assert stores.publications.at_work() == []
        stores.publications.submitted(mine, version=1, job=OTHER, head=head)
        assert [row.job for row in stores.publications.at_work()] == [OTHER]

    def test_a_head_that_moved_meanwhile_is_due_once_the_job_ended(self, stores: Stores) -> None:
        mine = dataset(stores)
        stores.publications.put(publication(mine))
        older = Multihash.of(b"an older head")
        stores.publications.submitted(mine, version=1, job=JOB, head=older)
        stores.publications.ended(mine, job=JOB, shown={}, head=older)
        assert len(stores.publications.due(now=NOON)) == 1

    def test_nothing_is_due_before_its_time(self, stores: Stores) -> None:
        mine = dataset(stores)
        older = Multihash.of(b"an older head")
        stores.publications.put(publication(mine))
        stores.publications.submitted(mine, version=1, job=JOB, head=older, not_before=LATER)
        stores.publications.ended(mine, job=JOB, shown={}, head=older)
        assert stores.publications.due(now=NOON) == []
        assert len(stores.publications.due(now=LATER)) == 1

    def test_a_failure_is_kept_and_tried_again_if_that_may_help(self, stores: Stores) -> None:
        mine = dataset(stores)
        head = stores.refs.head(mine)
        stores.publications.put(publication(mine))
        stores.publications.submitted(mine, version=1, job=JOB, head=head)
        stores.publications.ended(mine, job=JOB, problem=PROBLEM)
        found = stores.publications.find(mine)
        assert found is not None
        assert (found.problem, found.attempts) == (PROBLEM, 1)
        assert stores.publications.due(now=LATER) == []
        stores.publications.submitted(mine, version=1, job=OTHER, head=head)
        stores.publications.ended(mine, job=OTHER, problem=PROBLEM, retry_at=LATER)
        assert stores.publications.due(now=NOON) == []
        [(due, _)] = stores.publications.due(now=LATER)
        assert due.attempts == 2

    def test_a_job_of_an_older_definition_settles_nothing_of_the_newer(
        self, stores: Stores
    ) -> None:
        mine = dataset(stores)
        head = stores.refs.head(mine)
        stores.publications.put(publication(mine))
        stores.publications.submitted(mine, version=1, job=JOB, head=head)
        stores.publications.put(publication(mine))
        stores.publications.submitted(mine, version=1, job=OTHER, head=head)
        stores.publications.ended(mine, job=OTHER, shown={"head": "other"})
        stores.publications.ended(mine, job=JOB, shown={"head": str(head)}, head=head)
        [(due, _)] = stores.publications.due(now=NOON)
        assert (due.version, due.tried_head) == (2, None)
        assert due.shown == {"head": str(head)}

    def test_a_publication_goes_with_its_dataset(self, stores: Stores) -> None:
        mine = dataset(stores)
        stores.publications.put(publication(mine))
        stores.registry.forget(mine)
        assert stores.publications.find(mine) is None

    def test_what_was_removed_is_published_no_more(self, stores: Stores) -> None:
        mine = dataset(stores)
        stores.publications.put(publication(mine))
        stores.publications.remove(mine)
        stores.publications.remove(mine)
        assert stores.publications.find(mine) is None
        assert stores.publications.due(now=LATER) == []

    def test_there_is_no_publication_without_a_dataset(self, stores: Stores) -> None:
        with pytest.raises(DatasetNotFound):
            stores.publications.put(publication(some_id()))
