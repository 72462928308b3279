"""Served nodes for the tests of the service: one of each tenancy a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from service import Service, serving


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A single-tenant node on SQLite and local files."""
    with serving(tmp_path_factory.mktemp("single"), tenancy="single") as service:
        yield service


@pytest.fixture(scope="module")
def multi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A multi-tenant node on SQLite and local files."""
    with serving(tmp_path_factory.mktemp("multi"), tenancy="multi") as service:
        yield service
