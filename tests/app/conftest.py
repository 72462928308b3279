"""Served nodes for the tests of the service, one of each tenancy a module; stores for commands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from service import Service, serving

from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores

ALONE = {"query_check_s": 0.01}
"""No worker is there to check the query of a derivative: nothing is waited for."""


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A single-tenant node on SQLite and local files."""
    with serving(tmp_path_factory.mktemp("single"), tenancy="single", **ALONE) as service:
        yield service


@pytest.fixture(scope="module")
def multi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A multi-tenant node on SQLite and local files."""
    with serving(tmp_path_factory.mktemp("multi"), tenancy="multi", **ALONE) as service:
        yield service


@pytest.fixture
def home() -> Path:
    """Where commands of this test keep what they remember of nodes."""
    return Path(os.environ["ODF_NODE_CONFIG"])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def stores(data: Path) -> Iterator[Stores]:
    opened = open_stores(StoreSettings(data=data, durable=False))
    yield opened
    opened.close()
