"""Smart and simple transfer with a node that keeps its objects in a bucket."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from buckets import fresh_location, log_in
from chains import FolderDataset, files_of, make_dataset
from msgspec.structs import replace
from refusals import refusing
from servers import S3Server
from threaded_node import ThreadedNode, threaded_node

from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_node.service.transfer.pull import Links
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.metadata.events import AddData, OffsetInterval, Seed
from odf_protocol.multihash import HashMismatch, Multihash
from odf_protocol.transfer.messages import ObjectFileReference, ObjectType
from odf_storage.datasets.verify.run import DatasetSource, FolderSource, verify_chain
from odf_storage.stores.index.named_objects import named_objects
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.objects.s3 import S3ObjectStore
from odf_storage.stores.objects.s3_bucket import Bucket
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind, Visibility

keys = itertools.count(200)


@pytest.fixture(scope="module")
def bucket(s3: S3Server, s3_bucket_url: str) -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as patch:
        log_in(patch, s3)
        yield Bucket(fresh_location(s3_bucket_url))


@pytest.fixture(scope="module")
def node(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedNode]:
    where = bucket.location
    url = f"s3+{where.endpoint}/{where.bucket}/{where.prefix}"
    with threaded_node(tmp_path_factory.mktemp("s3") / "node", objects_url=url) as running:
        yield running


@pytest.fixture
def ours(tmp_path: Path) -> FolderDataset:
    return make_dataset(tmp_path / "ours", rows=[10, 7], checkpoint=b"state", key=next(keys))


def push(node: ThreadedNode, ours: FolderDataset, name: str) -> object:
    target = Location.parse(f"{node.smart}/{name}")
    source = Location.parse(str(ours.folder))
    return sync.push(source, target, token=node.token(), visibility=Visibility.PUBLIC)


@pytest.mark.parametrize("smart", [True, False])
def test_what_was_pushed_is_pulled_byte_by_byte(
    node: ThreadedNode, ours: FolderDataset, tmp_path: Path, smart: bool
) -> None:
    name = f"pushed-{smart}"
    push(node, ours, name)
    base = node.smart if smart else node.url
    sync.pull(Location.parse(f"{base}/{name}"), Location.parse(str(tmp_path / "theirs")))
    assert files_of(tmp_path / "theirs") == files_of(ours.folder)
    assert not (node.data / "datasets").exists()


def test_the_bucket_alone_holds_the_whole_dataset(
    node: ThreadedNode, bucket: Bucket, ours: FolderDataset, tmp_path: Path
) -> None:
    push(node, ours, "alone")
    head = FolderObjects(ours.folder).read_ref()
    found = node.node.stores.registry.get(DatasetRef(alias=DatasetAlias.parse("kamu/alone")))
    start = f"{found.id.multibase}/"
    for item in bucket.walk(start):
        path = tmp_path / "copy" / item.name.removeprefix(start)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.call("get_object", item.name)["Body"].read())
    assert FolderObjects(tmp_path / "copy").read_ref() == head
    report = verify_chain(FolderSource(FolderObjects(tmp_path / "copy")))
    assert report.ok, report.problems
    assert (tmp_path / "copy/info/alias").read_text() == "kamu/alone"
    there = verify_chain(DatasetSource(node.node.stores.dataset(DatasetRef(id=found.id))))
    assert there == report


def test_objects_come_and_go_by_presigned_url(node: ThreadedNode, ours: FolderDataset) -> None:
    push(node, ours, "links")
    store = node.node.stores.objects
    entry = node.node.stores.registry.get(DatasetRef(alias=DatasetAlias.parse("kamu/links")))
    links = Links(store, f"{node.url}/links/", "secret", timedelta(hours=1), max_object_bytes=3)
    known = next(info for info in store.list(entry.id) if info.key.kind is ObjectKind.DATA)
    there = ObjectFileReference(
        object_type=ObjectType.DataSlice, physical_hash=known.key.hash, size=known.size
    )
    pulled = links.pull(entry.id, there)
    assert pulled.pull_strategy == "HttpDownload"
    assert pulled.download_from.headers == ()
    assert pulled.download_from.expires_at is not None
    assert not pulled.download_from.url.startswith(node.url)
    assert Multihash.of(httpx.get(pulled.download_from.url).content) == known.key.hash
    assert links.push(entry.id, there).push_strategy == "SkipUpload"
    absent = ObjectFileReference(
        object_type=ObjectType.Checkpoint, physical_hash=Multihash.of(b"new"), size=3
    )
    put = links.push(entry.id, absent)
    assert put.push_strategy == "HttpUpload"
    assert put.upload_to is not None
    assert put.upload_to.expires_at is not None
    assert "secret" not in str(put)
    given = {header.name: header.value for header in put.upload_to.headers}
    answer = httpx.put(put.upload_to.url, content=b"new", headers=given)
    assert answer.status_code == 200
    key = ObjectKey(entry.id, ObjectKind.CHECKPOINT, absent.physical_hash)
    assert store.stat(key) is None
    assert store.settle(key) is not None
    too_large = ObjectFileReference(
        object_type=ObjectType.Checkpoint, physical_hash=Multihash.of(b"more"), size=4
    )
    sent_here = links.push(entry.id, too_large).upload_to
    assert sent_here is not None
    assert sent_here.url.startswith(node.url)


def test_a_commit_over_wrong_bytes_put_by_url_moves_nothing(
    node: ThreadedNode, bucket: Bucket, ours: FolderDataset
) -> None:
    stores, store = node.node.stores, S3ObjectStore(bucket)
    folder, blocks, seed = FolderObjects(ours.folder), ours.blocks, ours.blocks[0].event
    assert isinstance(seed, Seed)
    alias, now = DatasetAlias.parse("kamu/wrong"), node.node.clock()
    entry = DatasetEntry(seed.dataset_id, alias, seed.dataset_kind, Visibility.PUBLIC, now)
    dataset = stores.create_dataset(entry, blocks[:1])
    with refusing("ObjectMissing"):
        dataset.commit(blocks[1:], expected=blocks[0].hash)
    named = [one for block in blocks for one in named_objects(block.event)]
    for number, one in enumerate(named):
        key = ObjectKey(dataset.id, one.kind, one.hash)
        url = store.upload_url(key, size=one.size, ttl=timedelta(minutes=1))
        assert url is not None
        content = folder.path(one.kind, one.hash).read_bytes() if number else bytes(one.size)
        answer = httpx.put(url.url, content=content, headers=dict(url.headers))
        assert answer.status_code == 200
    with pytest.raises(HashMismatch):
        dataset.commit(blocks[1:], expected=blocks[0].hash)
    assert dataset.head() == blocks[0].hash
    wrong = ObjectKey(dataset.id, named[0].kind, named[0].hash)
    store.put(wrong, [folder.path(wrong.kind, wrong.hash).read_bytes()])
    dataset.commit(blocks[1:], expected=blocks[0].hash)
    assert dataset.head() == blocks[-1].hash
    assert verify_chain(DatasetSource(dataset)).ok


def test_a_forged_slice_put_by_url_moves_nothing(node: ThreadedNode, ours: FolderDataset) -> None:
    content, folder = b"ten rows, says its block", FolderObjects(ours.folder)
    name = Multihash.of(content)
    folder.put(ObjectKind.DATA, name, [content])
    event = ours.blocks[-1].event
    assert isinstance(event, AddData)
    assert event.new_data is not None
    interval = OffsetInterval(start=17, end=26)
    forged = replace(
        event.new_data, physical_hash=name, size=len(content), offset_interval=interval
    )
    assert event.new_checkpoint is not None
    continued = event.new_checkpoint.physical_hash
    ours.append(replace(event, prev_offset=16, prev_checkpoint=continued, new_data=forged))
    with pytest.raises(NodeError):
        push(node, ours, "forged")
    found = node.node.stores.registry.get(DatasetRef(alias=DatasetAlias.parse("kamu/forged")))
    dataset = node.node.stores.dataset(DatasetRef(id=found.id))
    assert dataset.head() == ours.blocks[0].hash
    staged = node.node.stores.objects.stat(ObjectKey(found.id, ObjectKind.DATA, name))
    assert staged is not None  # the bytes were what their name says: it was the rows
