"""Served nodes for the tests of the service, one of each tenancy a module; stores for commands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from service import Service, know_routes, serving

from odf_node.service import features
from odf_node.service.pages.datasets.blocks import dataset_pages
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores

ALONE = {"query_check_s": 0.01}
"""No worker is there to check the query of a derivative: nothing is waited for."""
CORE = frozenset((Path(__file__).parent / "core_alone.txt").read_text().split())
"""Files whose tests need no feature; any other file is played with all of them."""


@pytest.fixture(scope="module", autouse=True)
def _core_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nodes that files of the core serve have no feature; nodes of all others, and those that run
    as processes, have all. So one run tests the core alone and with its features."""
    if request.path.name not in CORE:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "OWN", ())
        _forget_features()
        know_routes()
        yield
    _forget_features()


def _forget_features() -> None:
    features.features.cache_clear()
    dataset_pages.cache_clear()


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
