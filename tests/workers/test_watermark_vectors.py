"""The watermark of a slice is that of the known answers (those computed from data)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.workers import tables

from odf_protocol.instant import Instant

CASES = [c for c in tables.cases("watermark") if c["given"]["operation"] == "from-data"]


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in CASES])
def test_the_watermark_follows_the_answer(case: dict[str, Any]) -> None:
    from odf_workers.jobs.ingest.outcome import next_watermark
    from odf_workers.slices.write import Written

    given = case["given"]
    times = [Instant.parse(text) for text in given["event_times"]]
    written = Written(Path("slice"), max_event_time=max(times, default=None))
    explicit = Instant.parse(given["explicit"]) if given["explicit"] else None
    previous = Instant.parse(given["prev"]) if given["prev"] else None
    found = next_watermark(previous, written, explicit)
    assert (found and str(found)) == case["expect"]["watermark"]
