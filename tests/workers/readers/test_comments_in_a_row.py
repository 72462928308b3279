"""Comments in a row are read once: each more takes as long as the one before it.

Where a comment could end at several places, each more would double the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from odf_protocol.metadata.sources import ReadStepCsv
from odf_workers.engines.datafusion.plan import check_words
from odf_workers.engines.port.port import located
from odf_workers.engines.spark.limit import has_literal_moment
from odf_workers.readers.values.features import refuse_page

COUNT = 26
"""Doubled so many times, a microsecond is a minute."""
READERS: dict[str, Callable[[], object]] = {
    "beginning of a file": lambda: refuse_page(b"<!---->" * COUNT + b"x", ReadStepCsv()),
    "moments in a query": lambda: has_literal_moment("date" + "/**/" * COUNT + "x"),
    "comments without an end": lambda: check_words("/* " * 20_000),
    "the place of an error": lambda: located("/* " * 20_000, "no such name: x"),
}


@pytest.mark.parametrize("reader", READERS)
def test_comments_in_a_row_are_read_once(reader: str) -> None:
    began = time.thread_time()
    READERS[reader]()
    assert time.thread_time() - began < 1.0
