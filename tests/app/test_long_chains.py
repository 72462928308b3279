"""Long chains are pushed and pulled whole or not at all, and leave nothing lying."""

from __future__ import annotations

import errno
import os
import threading

import pytest
from chains import files_of, make_dataset
from threaded_node import threaded_node

from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_protocol.codec.blocks import encode_block
from odf_protocol.errors import NodeError
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import MetadataBlock, SetInfo
from odf_storage.stores.objects import pending_files
from odf_storage.stores.objects.layout import PENDING_PREFIX, StorageFull
from odf_storage.stores.ports.values import ObjectKind


@pytest.fixture
def node(tmp_path):
    with threaded_node(tmp_path / "node") as running:
        yield running


@pytest.fixture
def ours(tmp_path):
    made = make_dataset(tmp_path / "ours", rows=[3], checkpoint=b"state")
    made.append(*(SetInfo(description=f"text {number}") for number in range(40)))
    return made


def push(node, dataset):
    target = Location.parse(f"{node.smart}/foo")
    return sync.push(Location.parse(str(dataset.folder)), target, token=node.token())


def pull(node, target):
    source = Location.parse(f"{node.smart}/foo")
    return sync.pull(source, Location.parse(str(target)), token=node.token())


def pending(place):
    """`rglob` would stumble over folders that go meanwhile."""
    found = (name for _, folders, names in os.walk(place) for name in (*folders, *names))
    return [name for name in found if name.startswith(PENDING_PREFIX)]


def test_a_long_chain_is_pushed_and_pulled_byte_for_byte(node, ours, tmp_path):
    assert push(node, ours).blocks == 43
    assert pull(node, tmp_path / "copy").blocks == 43
    assert files_of(tmp_path / "copy") == ours.files()
    assert pending(tmp_path) == []


def test_more_of_a_chain_follows_what_is_there(node, ours, tmp_path):
    push(node, ours)
    pull(node, tmp_path / "copy")
    ours.append(*(SetInfo(description=f"more {number}") for number in range(20)))
    push(node, ours)
    assert pull(node, tmp_path / "copy").blocks == 20
    assert files_of(tmp_path / "copy") == ours.files()
    ours.append(*(SetInfo(description=f"few {number}") for number in range(5)))
    push(node, ours)
    assert pull(node, tmp_path / "copy").blocks == 5
    assert files_of(tmp_path / "copy") == ours.files()
    assert pending(tmp_path) == []


def test_a_chain_that_breaks_a_rule_at_its_end_leaves_nothing(node, ours, tmp_path):
    push(node, ours)
    before = files_of(tmp_path / "node")
    ours.append(*(SetInfo(description=f"more {number}") for number in range(30)))
    last = ours.blocks[-1]
    older = MetadataBlock(
        system_time=Instant(0),
        prev_block_hash=last.hash,
        sequence_number=last.sequence_number + 1,
        event=SetInfo(description="from the past"),
    )
    ours.blocks.append(encode_block(older))
    ours.objects.put(ObjectKind.BLOCK, ours.head, [ours.blocks[-1].raw])
    ours.objects.write_ref("head", ours.head)
    with pytest.raises(NodeError):
        push(node, ours)
    wait_for_nothing_pending(tmp_path / "node")
    assert files_of(tmp_path / "node") == before


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_sync_that_fails_moves_no_head_of_a_node(node, ours, tmp_path, monkeypatch, number):
    failing_sync(monkeypatch, number)
    with pytest.raises(NodeError):
        push(node, ours)
    wait_for_nothing_pending(tmp_path / "node")
    (dataset,) = (tmp_path / "node" / "datasets").iterdir()
    assert [path.name for path in (dataset / "blocks").iterdir()] == [str(ours.blocks[0].hash)]
    monkeypatch.undo()
    assert push(node, ours).new_head == ours.head


def test_a_sync_that_finds_no_room_moves_no_head_of_a_folder(node, ours, tmp_path, monkeypatch):
    push(node, ours)
    failing_sync(monkeypatch, errno.ENOSPC)
    with pytest.raises(StorageFull, match="nothing was stored"):
        pull(node, tmp_path / "copy")
    assert list((tmp_path / "copy" / "blocks").iterdir()) == []
    assert not (tmp_path / "copy" / "refs").exists()
    assert pending(tmp_path / "copy") == []
    monkeypatch.undo()
    pull(node, tmp_path / "copy")
    assert files_of(tmp_path / "copy") == ours.files()


def test_what_a_killed_pull_left_pending_goes_with_the_next(node, ours, tmp_path):
    push(node, ours)
    left = tmp_path / "copy" / f"{PENDING_PREFIX}0123456789abcdef"
    left.mkdir(parents=True)
    (left / str(ours.head)).write_bytes(b"half")
    (tmp_path / "copy" / "blocks").mkdir()
    (tmp_path / "copy" / "blocks" / f"{PENDING_PREFIX}0123-7").write_bytes(b"half")
    pull(node, tmp_path / "copy")
    assert pending(tmp_path / "copy") == []
    assert files_of(tmp_path / "copy") == ours.files()


def failing_sync(monkeypatch, number):
    def failing(_handle, name):
        raise OSError(number, f"cannot sync {name}")

    monkeypatch.setattr(pending_files, "sync_file_system", failing)


def wait_for_nothing_pending(place):
    """The node clears up after it has told the client."""
    tick = threading.Event()
    for _ in range(600):
        if not pending(place):
            return
        tick.wait(0.05)
    raise AssertionError(pending(place))
