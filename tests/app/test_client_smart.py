"""Smart pull and push against the real service: tenancies, force, collisions, refusals."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest
from chains import FolderDataset, files_of, make_dataset
from refusals import refusing
from threaded_node import ThreadedNode, threaded_node

from odf_node.client.nodes.http import DatasetMissing, Unauthenticated, Unauthorized
from odf_node.client.nodes.limits import ClientLimits
from odf_node.client.nodes.remotes import Location
from odf_node.client.nodes.repositories import HttpRepository
from odf_node.client.transfer import smart_pull, sync
from odf_node.client.transfer.folder import FolderRepository
from odf_node.client.transfer.receive import (
    DestinationAhead,
    Diverged,
    Outcome,
    SourceObjectMissing,
    Unwatched,
)
from odf_protocol.chain.rules import fold
from odf_protocol.codec.blocks import encode_block
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import MetadataBlock, SetInfo
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.datasets.read.view import view_of
from odf_storage.datasets.verify.run import verify_chain
from odf_storage.stores.ports.values import ObjectKind, Visibility

names = (f"dataset-{number}" for number in itertools.count())
keys = itertools.count(10)


class Place:
    """Where one test's dataset lives on a node."""

    def __init__(self, node: ThreadedNode, account: str = "kamu", *, multi: bool = False) -> None:
        self.node = node
        self.token = node.token(account)
        self.path = f"/{account}/{next(names)}" if multi else f"/{next(names)}"

    @property
    def smart(self) -> Location:
        return Location.parse(self.node.smart + self.path)

    @property
    def simple(self) -> Location:
        return Location.parse(self.node.url + self.path)

    def push(self, dataset: FolderDataset, **more: object) -> Outcome:
        given = {"token": self.token, "visibility": Visibility.PUBLIC, **more}
        return sync.push(Location.parse(str(dataset.folder)), self.smart, **given)

    def pull(self, folder: object, *, simple: bool = False, **more: object) -> Outcome:
        source = self.simple if simple else self.smart
        return sync.pull(source, Location.parse(str(folder)), **more)


@pytest.fixture(scope="module")
def single(tmp_path_factory) -> Iterator[ThreadedNode]:
    with threaded_node(tmp_path_factory.mktemp("single") / "node") as node:
        yield node


@pytest.fixture(scope="module")
def multi(tmp_path_factory) -> Iterator[ThreadedNode]:
    with threaded_node(tmp_path_factory.mktemp("multi") / "node", tenancy="multi") as node:
        yield node


@pytest.fixture(params=["single", "multi"])
def place(request) -> Place:
    node = request.getfixturevalue(request.param)
    return Place(node, multi=request.param == "multi")


@pytest.fixture
def ours(tmp_path) -> FolderDataset:
    return make_dataset(tmp_path / "ours", rows=[10], checkpoint=b"state", key=next(keys))


@pytest.mark.scenario("D04")
def test_what_is_pushed_is_pulled_byte_for_byte_by_both_protocols(place, ours, tmp_path):
    pushed = place.push(ours)
    assert (pushed.outcome, pushed.old_head, pushed.new_head) == ("updated", None, ours.head)
    assert (pushed.blocks, pushed.objects) == (3, 2)
    for folder, simple in (("smart", False), ("simple", True)):
        pulled = place.pull(tmp_path / folder, simple=simple)
        assert (pulled.old_head, pulled.new_head) == (None, ours.head)
        assert (pulled.blocks, pulled.objects) == (3, 2)
        assert files_of(tmp_path / folder) == ours.files()


def test_who_watches_a_push_is_told_that_the_node_commits(place, ours):
    told = []

    class Watching(Unwatched):
        def object_bytes(self, size):
            told.append(size)

        def committing(self):
            told.append("committing")

    place.push(ours, progress=Watching())
    assert told.index("committing") == len(told) - 1 > 0


def test_a_seed_alone_travels_without_objects(place, tmp_path):
    seed = make_dataset(tmp_path / "seed", key=next(keys))
    seed.rewind(1)
    assert place.push(seed).blocks == 1
    assert place.pull(tmp_path / "copy").blocks == 1
    head = (tmp_path / "copy" / "refs" / "head").read_text()
    assert head == str(seed.head)


@pytest.mark.scenario("E01")
def test_equal_heads_are_up_to_date_without_a_websocket(place, ours, tmp_path, monkeypatch):
    place.push(ours)
    place.pull(tmp_path / "copy")

    def no_socket(*_: object, **__: object) -> None:
        raise AssertionError("a WebSocket was opened")

    monkeypatch.setattr("odf_node.client.transfer.smart_push.conversation", no_socket)
    monkeypatch.setattr(smart_pull, "conversation", no_socket)
    read = blocks_read(monkeypatch)
    assert place.push(ours).outcome == "up-to-date"
    assert place.pull(tmp_path / "copy").outcome == "up-to-date"
    assert read == []


def blocks_read(monkeypatch) -> list[Multihash]:
    """Which blocks are read from folders from now on."""
    read: list[Multihash] = []
    block_bytes = FolderRepository.block_bytes

    def noted(folder: FolderRepository, block: Multihash) -> bytes:
        read.append(block)
        return block_bytes(folder, block)

    monkeypatch.setattr(FolderRepository, "block_bytes", noted)
    return read


def test_a_push_reads_no_further_back_than_to_what_the_node_has(place, ours, monkeypatch):
    place.push(ours)
    known = [block.hash for block in ours.blocks]
    ours.add_info("one")
    ours.add_rows(2)
    read = blocks_read(monkeypatch)
    assert place.push(ours).blocks == 2
    assert read == [ours.blocks[-1].hash, ours.blocks[-2].hash, known[-1]]


def test_a_continuation_the_node_refuses_is_explained_from_the_chain_here(place, ours):
    place.push(ours)
    state = fold(ours.blocks)
    early = Instant(ours.blocks[-1].block.system_time.ns - 1)
    broken = encode_block(
        MetadataBlock(
            system_time=early,
            prev_block_hash=ours.head,
            sequence_number=state.num_blocks,
            event=SetInfo(description="from the past"),
        )
    )
    ours.objects.put(ObjectKind.BLOCK, broken.hash, [broken.raw])
    ours.objects.write_ref("head", broken.hash)
    with refusing("SystemTimeIsNotMonotonic"):
        place.push(ours)


@pytest.mark.scenario("D07")
def test_only_what_is_new_travels(place, ours, tmp_path):
    place.push(ours)
    place.pull(tmp_path / "copy")
    old = ours.head
    ours.add_info("more")
    ours.add_rows(4, checkpoint=b"later")
    pushed = place.push(ours)
    assert (pushed.old_head, pushed.blocks, pushed.objects) == (old, 2, 2)
    pulled = place.pull(tmp_path / "copy")
    assert (pulled.old_head, pulled.new_head, pulled.blocks, pulled.objects) == (
        old,
        ours.head,
        2,
        2,
    )
    assert files_of(tmp_path / "copy") == ours.files()


def test_a_pull_into_a_folder_that_is_ahead_or_diverged_changes_nothing(place, ours, tmp_path):
    place.push(ours)
    ahead = ours.fork(tmp_path / "ahead")
    ahead.add_info("ahead")
    before = ahead.files()
    with pytest.raises(DestinationAhead):
        place.pull(ahead.folder)
    ours.add_info("other way")
    place.push(ours)
    with pytest.raises(Diverged) as caught:
        place.pull(ahead.folder)
    assert caught.value.facts == {
        "uncommon_in_source": 1,
        "uncommon_in_destination": 1,
        "ancestor": str(ours.blocks[-2].hash),
        "ancestor_number": ours.blocks[-2].sequence_number,
    }
    assert files_of(ahead.folder) == before


@pytest.mark.scenario("D11")
def test_force_replaces_diverged_history_on_either_side(place, ours, tmp_path):
    place.push(ours)
    theirs = ours.fork(tmp_path / "theirs")
    ours.add_info("ours")
    theirs.add_rows(3)
    place.push(ours)
    with pytest.raises(Diverged):
        place.push(theirs)
    pushed = place.push(theirs, force=True)
    assert (pushed.old_head, pushed.new_head, pushed.blocks) == (ours.head, theirs.head, 4)
    pulled = place.pull(ours.folder, force=True)
    assert (pulled.old_head, pulled.new_head, pulled.blocks) == (ours.head, theirs.head, 4)


@pytest.mark.scenario("D10")
def test_a_push_behind_the_node_is_refused_here(place, ours):
    behind = ours.fork(ours.folder.parent / "behind")
    ours.add_info("new")
    place.push(ours)
    with pytest.raises(DestinationAhead):
        place.push(behind)


def test_a_compacted_chain_replaces_the_longer_one_by_force(place, tmp_path):
    long = make_dataset(tmp_path / "long", rows=[3, 4, 5], key=next(keys))
    place.push(long)
    compact = FolderDataset(tmp_path / "compact", list(long.blocks[:2]))
    for block in compact.blocks:
        compact.objects.put(ObjectKind.BLOCK, block.hash, [block.raw])
    compact.add_rows(12)
    pushed = place.push(compact, force=True)
    assert (pushed.old_head, pushed.blocks) == (long.head, 3)
    assert place.pull(long.folder, force=True).new_head == compact.head


def test_force_never_replaces_another_dataset(place, ours, tmp_path):
    place.push(ours)
    other = make_dataset(tmp_path / "other", key=next(keys))
    with refusing("SeedOverwrite"):
        place.push(other, force=True)
    with refusing("SeedOverwrite"):
        place.pull(other.folder, force=True)


def test_objects_that_are_here_already_are_not_fetched_again(place, ours, tmp_path):
    place.push(ours)
    copy = tmp_path / "copy"
    for path in (ours.folder / "data").iterdir():
        (copy / "data").mkdir(parents=True)
        (copy / "data" / path.name).write_bytes(path.read_bytes())
    assert place.pull(copy).objects == 1
    assert files_of(copy) == ours.files()


def test_a_missing_dataset_is_not_found(place, tmp_path):
    with pytest.raises(DatasetMissing):
        place.pull(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.scenario("D01")
def test_a_folder_without_dataset_cannot_be_pushed(place, tmp_path):
    with pytest.raises(DatasetMissing):
        place.push(FolderDataset(tmp_path / "nothing"))


def test_a_push_with_an_account_where_there_is_one_tenant_says_what_to_write(single, ours):
    place = Place(single)
    place.path = "/anna" + place.path
    with pytest.raises(DatasetMissing, match=f"no account: write odf.*{place.path[5:]}$"):
        place.push(ours)


def test_a_push_without_token_is_unauthenticated(place, ours):
    with pytest.raises(Unauthenticated):
        place.push(ours, token=None)


def test_a_push_with_a_useless_token_is_unauthenticated(place, ours):
    with pytest.raises(Unauthenticated):
        place.push(ours, token="ka_nonsense")
    expired = place.node.token("kamu", expires_at=Instant(1))
    with pytest.raises(Unauthenticated):
        place.push(ours, token=expired)


def test_a_push_into_a_foreign_account_is_refused(multi, ours):
    place = Place(multi, "alice", multi=True)
    with pytest.raises(Unauthorized):
        place.push(ours, token=multi.token("bob"))


def test_a_public_dataset_of_somebody_else_cannot_be_written(multi, ours):
    place = Place(multi, "alice", multi=True)
    place.push(ours)
    ours.add_info("more")
    with pytest.raises(Unauthorized):
        place.push(ours, token=multi.token("bob"))
    with pytest.raises((Unauthorized, Unauthenticated)):
        place.push(ours, token=None)


def test_a_private_dataset_does_not_exist_for_strangers(multi, ours, tmp_path):
    place = Place(multi, "alice", multi=True)
    place.push(ours, visibility=Visibility.PRIVATE)
    for token in (None, multi.token("bob")):
        for simple in (False, True):
            with pytest.raises(DatasetMissing):
                place.pull(tmp_path / "copy", simple=simple, token=token)
        ours.add_info("more")
        with pytest.raises((Unauthenticated, Unauthorized)):  # as for a missing dataset
            place.push(ours, token=token)
    assert place.pull(tmp_path / "copy", token=place.token).outcome == "updated"


def test_a_dataset_has_one_name_per_node(place, ours, single, multi):
    place.push(ours)
    elsewhere = Place(place.node, multi=place.node is multi)
    with refusing("RefCollision"):
        elsewhere.push(ours)


def test_a_name_belongs_to_one_dataset(place, ours, tmp_path):
    """The head is not in our chain; force leads to the comparison of Seeds."""
    place.push(ours)
    other = make_dataset(tmp_path / "other", key=next(keys))
    with refusing("SeedOverwrite", "NameCollision"):
        place.push(other, force=True)


def test_another_protocol_version_is_refused(place, ours, tmp_path, monkeypatch):
    place.push(ours)
    monkeypatch.setattr("odf_node.client.transfer.socket.PROTOCOL_VERSION", 0)
    with refusing("HandshakeRefused", match="Incompatible client version"):
        place.pull(tmp_path / "copy")


def test_a_damaged_object_on_the_node_is_refused_and_nothing_becomes_visible(place, ours, tmp_path):
    place.push(ours)
    dataset = ours.blocks[0].event.dataset_id.multibase
    stored = place.node.data / "datasets" / dataset / "data" / _slice_of(ours)
    content = bytearray(stored.read_bytes())
    content[len(content) // 2] ^= 1
    stored.chmod(0o644)
    stored.write_bytes(content)
    with refusing("RemoteDamaged", match=stored.name):
        place.pull(tmp_path / "copy")
    assert not (tmp_path / "copy" / "refs").exists()


def test_a_damaged_object_here_is_not_pushed(place, ours):
    path = ours.folder / "data" / _slice_of(ours)
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)
    with pytest.raises(HashMismatch, match=path.name):
        place.push(ours)
    path.write_bytes(b"short")
    with refusing("ObjectSizeMismatch"):
        place.push(ours)
    path.unlink()
    with pytest.raises(SourceObjectMissing):
        place.push(ours)


def test_a_push_that_broke_off_is_taken_up_again(place, ours):
    path = ours.folder / "data" / _slice_of(ours)
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[7] ^= 1
    path.chmod(0o644)
    path.write_bytes(damaged)
    with pytest.raises(HashMismatch):
        place.push(ours, limits=ClientLimits(parallel_smart=1))
    path.write_bytes(content)
    assert place.push(ours).new_head == ours.head


def test_a_large_batch_travels_in_fragments(place, tmp_path):
    """Incompressible metadata: the message is longer than one frame may be."""
    import random

    noise = random.Random(1)
    dataset = make_dataset(tmp_path / "large", key=next(keys))
    for _ in range(30):
        dataset.add_info(noise.randbytes(60_000).hex())
    started = time.monotonic()
    assert place.push(dataset).blocks == 32
    assert place.pull(tmp_path / "copy").blocks == 32
    assert files_of(tmp_path / "copy") == dataset.files()
    assert time.monotonic() - started < 60


def _slice_of(dataset: FolderDataset) -> str:
    return next((dataset.folder / "data").iterdir()).name


# --- reading without a copy -----------------------------------------------------------------


def blocks_asked_for(monkeypatch) -> list[Multihash]:
    """Which blocks are asked for by the simple protocol from now on."""
    asked: list[Multihash] = []
    block_bytes = HttpRepository.block_bytes

    def noted(repository: HttpRepository, block: Multihash) -> bytes:
        asked.append(block)
        return block_bytes(repository, block)

    monkeypatch.setattr(HttpRepository, "block_bytes", noted)
    return asked


def test_a_chain_that_is_wanted_whole_comes_in_one_message(place, ours, monkeypatch):
    place.push(ours)
    asked = blocks_asked_for(monkeypatch)
    with sync.opened(place.smart, place.token, whole=True) as repository:
        report = verify_chain(repository)
        assert len(view_of(repository).slices) == 1
    assert (report.ok, report.blocks, report.head) == (True, len(ours.blocks), str(ours.head))
    assert asked == []


def test_a_chain_is_walked_where_the_message_is_refused_or_another_protocol_is_named(
    place, ours, monkeypatch
):
    place.push(ours)
    asked = blocks_asked_for(monkeypatch)
    back = [block.hash for block in reversed(ours.blocks)]
    with sync.opened(place.simple, place.token, whole=True) as repository:
        assert view_of(repository).head == ours.head
    assert asked == back
    few = ClientLimits(blocks=2)
    with sync.opened(place.smart, place.token, whole=True, limits=few) as repository:
        assert view_of(repository).head == ours.head
    assert asked == back * 2


def test_a_block_from_before_the_history_was_rewritten_is_still_found(place, ours, monkeypatch):
    place.push(ours)
    old = ours.head
    ours.rewind(1)
    ours.add_info("another way")
    place.push(ours, force=True)
    with sync.opened(place.smart, place.token, whole=True) as repository:
        assert Multihash.of(repository.block_bytes(old)) == old
        assert Multihash.of(repository.block_bytes(ours.head)) == ours.head
