"""Settings in, opened stores out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from chain_maker import entry, long_chain
from refusals import refusing

from odf_protocol.identity import DatasetRef
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.objects.local import LocalObjectStore


def test_a_folder_alone_is_a_whole_node(tmp_path: Path) -> None:
    settings = StoreSettings(data=tmp_path / "not" / "there yet")
    stores = open_stores(settings)
    blocks = long_chain(entry().id, 2)
    stores.create_dataset(entry(), blocks)
    stores.close()
    assert {path.name for path in settings.data.iterdir()} >= {"node.db", "datasets"}
    again = open_stores(settings)
    assert again.dataset(DatasetRef(id=entry().id)).blocks() == blocks
    again.close()


def test_objects_may_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    objects = tmp_path / "objects"
    stores = open_stores(StoreSettings(data=tmp_path / "data", objects_url=f"file://{objects}"))
    assert isinstance(stores.objects, LocalObjectStore)
    assert stores.objects.root == objects
    stores.close()


@pytest.mark.parametrize("url", ["ftp://secret@host", "nonsense"])
def test_other_object_stores_are_refused(tmp_path: Path, url: str) -> None:
    with refusing("UnknownObjectStore") as refused:
        open_stores(StoreSettings(data=tmp_path / "data", objects_url=url))
    assert "secret" not in refused.value.message
    assert not (tmp_path / "data").exists()


def test_closing_closes_the_object_store_and_its_copies(tmp_path: Path) -> None:
    stores = open_stores(StoreSettings(data=tmp_path, durable=False))
    objects, copy = mock.Mock(), mock.Mock()
    replace(stores, objects=objects, copies=(copy,)).close()
    objects.close.assert_called_once_with()
    copy.close.assert_called_once_with()
