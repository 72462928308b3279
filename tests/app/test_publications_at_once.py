"""Requests for a publication that come while the service looks for what is due."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kartothek_published import A2, Growing
from throwaway import throwaway_stores

from odf_node.service.projections.publications import Publishing, define, find, refresh
from odf_node.service.projections.routes import keep_up
from odf_node.service.setting_groups.words import Tenancy
from odf_storage.datasets.job_payloads import publish_job
from odf_storage.datasets.kartothek.definition import Definition
from odf_storage.runtime.clock import system_clock


def test_what_was_asked_counts_rather_than_what_became_due(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = throwaway_stores()
    made = Growing(stores)
    made.add(A2[0])
    publishing = Publishing(stores, (), system_clock, Tenancy.SINGLE)
    define(publishing, made.entry, Definition())
    asked: list[Any] = []
    due, row = stores.publications.due, find(publishing, made.entry)
    assert row.job is not None
    stores.publications.ended(made.entry.id, job=row.job)
    made.add(A2[1])

    def late(**given: Any) -> Any:
        found = due(**given)
        asked.append(refresh(publishing, made.entry))
        stores.jobs.claim("worker", [publish_job.KIND], lease=timedelta(minutes=1))
        return found

    monkeypatch.setattr(stores.publications, "due", late)
    keep_up(publishing)
    assert [find(publishing, made.entry).job] == asked
