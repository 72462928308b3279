"""A dataset that grows, and a store to publish it into."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kartothek_published import Growing

from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.keyed.folder import FolderKeyedStore


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Growing]:
    stores = open_stores(StoreSettings(data=tmp_path / "node", durable=False))
    yield Growing(stores)
    stores.close()


@pytest.fixture
def store(tmp_path: Path) -> FolderKeyedStore:
    return FolderKeyedStore(tmp_path / "shop", durable=False)
