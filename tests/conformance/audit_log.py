"""What an audit log promises. Subclasses give `stores`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chain_maker import NOON, some_id

from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.accounts import AuditEntry, AuditFilter

ENTRY = AuditEntry(
    at=NOON,
    actor="anna",
    account="did:odf:anna",
    action="create_dataset",
    subject="POST /datasets",
    outcome="201",
    dataset=some_id(),
    address="10.0.0.1",
    trace="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
    facts={"alias": "anna/foo"},
)


def later(seconds: int) -> Instant:
    return Instant(NOON.ns + seconds * NANOS)


class AuditLogContract:
    def test_deeds_are_read_as_they_were_recorded_newest_first(self, stores: Stores) -> None:
        stores.audit.record([ENTRY, replace(ENTRY, actor="bert", dataset=None, trace=None)])
        stores.audit.record([replace(ENTRY, actor="carl")])
        found = stores.audit.page()
        assert [audit_entry.actor for audit_entry in found] == ["carl", "bert", "anna"]
        assert replace(found[-1], number=0) == ENTRY
        assert [audit_entry.number for audit_entry in found] == sorted(
            (audit_entry.number for audit_entry in found), reverse=True
        )

    def test_pages_go_on_where_the_last_one_ended(self, stores: Stores) -> None:
        stores.audit.record([replace(ENTRY, actor=str(number)) for number in range(5)])
        first = stores.audit.page(limit=2)
        second = stores.audit.page(before=first[-1].number, limit=2)
        assert [audit_entry.actor for audit_entry in (*first, *second)] == ["4", "3", "2", "1"]

    @pytest.mark.parametrize(
        "which",
        [
            AuditFilter(actor="bert"),
            AuditFilter(action="push"),
            AuditFilter(dataset=some_id("b")),
            AuditFilter(since=later(5)),
        ],
    )
    def test_only_what_was_asked_for_is_found(self, stores: Stores, which: AuditFilter) -> None:
        wanted = replace(
            ENTRY, actor="bert", action="push", dataset=which.dataset or some_id("b"), at=later(5)
        )
        stores.audit.record([ENTRY, wanted])
        assert [audit_entry.actor for audit_entry in stores.audit.page(which)] == ["bert"]

    def test_the_end_of_a_span_of_time_does_not_belong_to_it(self, stores: Stores) -> None:
        stores.audit.record([ENTRY, replace(ENTRY, at=later(5))])
        assert len(stores.audit.page(AuditFilter(since=NOON, until=later(5)))) == 1

    def test_what_is_old_enough_is_forgotten_and_its_number_not_given_again(
        self, stores: Stores
    ) -> None:
        stores.audit.record([ENTRY, replace(ENTRY, at=later(5))])
        last = stores.audit.page()[0].number
        assert stores.audit.prune(before=later(5)) == 1
        assert stores.audit.prune(before=later(9)) == 1
        stores.audit.record([ENTRY])
        assert [audit_entry.number > last for audit_entry in stores.audit.page()] == [True]

    def test_any_text_can_be_recorded(self, stores: Stores) -> None:
        odd = replace(ENTRY, actor="a" * 999, subject="\0 \ud800 ' -- " + "x" * 5000)
        stores.audit.record([odd])
        assert len(stores.audit.page()) == 1
        assert stores.audit.page(AuditFilter(actor="\0")) == []
