"""The same story on pairs of database and object store, with the real servers of the run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from backends import PAIRS, backend_urls, credentials
from chains import FolderDataset, files_of, make_dataset
from threaded_node import ThreadedNode, threaded_node
from upkeep_parts import TOMORROW

from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.upkeep.fsck import check_stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.datasets.verify.run import DatasetSource, FolderSource, verify_chain
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import Visibility

keys = itertools.count(100)


@pytest.fixture(scope="module", params=PAIRS)
def node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreadedNode]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials(request.param, request).items():
            patch.setenv(name, value)
        data = tmp_path_factory.mktemp("matrix") / "node"
        with threaded_node(data, **backend_urls(request.param, request)) as running:
            yield running


@pytest.fixture
def ours(tmp_path: Path) -> FolderDataset:
    return make_dataset(tmp_path / "ours", rows=[10, 7], checkpoint=b"state", key=next(keys))


def push(node: ThreadedNode, ours: FolderDataset, name: str, *, smart: bool = True, **more: bool):
    target = Location.parse(f"{node.smart if smart else node.url}/{name}")
    source = Location.parse(str(ours.folder))
    return sync.push(source, target, token=node.token(), visibility=Visibility.PUBLIC, **more)


def kept(node: ThreadedNode, name: str) -> Dataset:
    return node.node.stores.dataset(DatasetRef(alias=DatasetAlias.parse(f"kamu/{name}")))


@pytest.mark.parametrize("smart", [True, False])
def test_what_is_pushed_comes_back_byte_by_byte(
    node: ThreadedNode, ours: FolderDataset, tmp_path: Path, smart: bool
) -> None:
    name = f"round-{smart}".lower()
    push(node, ours, name)
    ours.add_rows(4)
    push(node, ours, name)
    source = Location.parse(f"{node.smart if smart else node.url}/{name}")
    sync.pull(source, Location.parse(str(tmp_path / "theirs")))
    assert files_of(tmp_path / "theirs") == files_of(ours.folder)
    assert verify_chain(FolderSource(FolderObjects(tmp_path / "theirs"))).ok
    assert verify_chain(DatasetSource(kept(node, name))).ok


def test_a_diverged_push_is_refused_and_a_forced_one_replaces(
    node: ThreadedNode, ours: FolderDataset, tmp_path: Path
) -> None:
    other = ours.fork(tmp_path / "other")
    other.rewind(1)
    ours.add_info("one way")
    other.add_info("another way")
    push(node, ours, "forked")
    with pytest.raises(NodeError):
        push(node, other, "forked")
    assert kept(node, "forked").head() == ours.head
    push(node, other, "forked", force=True)
    dataset = kept(node, "forked")
    assert dataset.head() == other.head
    assert verify_chain(DatasetSource(dataset)).ok


def test_a_removed_dataset_can_be_pushed_again(node: ThreadedNode, ours: FolderDataset) -> None:
    push(node, ours, "again")
    dataset = kept(node, "again").id
    node.node.stores.forget_dataset(dataset)
    assert list(node.node.stores.objects.list(dataset)) == []
    assert node.node.stores.registry.find(DatasetRef(id=dataset)) is None
    push(node, ours, "again")
    assert verify_chain(DatasetSource(kept(node, "again"))).ok


def test_the_store_is_whole_and_its_garbage_goes(node: ThreadedNode) -> None:
    stores = node.node.stores
    assert check_stores(stores).ok
    collect_garbage(stores, clock=TOMORROW)
    report = check_stores(stores)
    assert report.ok, report.problems
    assert report.notes == []
    assert stores.republish_all() == 0
