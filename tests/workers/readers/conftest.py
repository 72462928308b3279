"""Fixtures of the tests of readers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odf_workers.readers.formats import csv
from odf_workers.readers.values import text


@pytest.fixture(scope="module", params=["few values", "many values"])
def whichever_is_quicker(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test as it is, and again as if a file of a few rows had many: Arrow splits and casts
    these."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "many values":
            patch.setattr(csv, "FEW_BYTES", 0)
            patch.setattr(text, "FEW", 0)
        yield
