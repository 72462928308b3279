"""Datasets over any set of stores: reading intervals, states, and committing."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from typing import Any

import pytest
from chain_maker import (
    add_data,
    chain,
    checkpoint_of,
    entry,
    infos,
    linked,
    long_chain,
    parquet,
    seed,
    slice_of,
    some_id,
    table,
)
from msgspec.structs import replace
from refusals import refusing

from odf_protocol.chain.definition_rules import ChainRuleBroken
from odf_protocol.chain.rules import author, fold
from odf_protocol.codec.blocks import encode_block
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, DatasetKind, HashedBlock, SetDataSchema, SetInfo
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset import dataset as dataset_module
from odf_storage.datasets.dataset import state_cache as chain_module
from odf_storage.datasets.dataset.dataset import (
    BlockNotFound,
    Dataset,
    InvalidInterval,
    SeedBlockOverwriteRestricted,
)
from odf_storage.datasets.dataset.state_cache import StateCache
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import (
    AliasTaken,
    DatasetIdTaken,
    DatasetNotFound,
    RefConflict,
)
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

ID = entry().id


def created(stores: Stores, length: int = 1) -> tuple[Dataset, list[HashedBlock]]:
    blocks = long_chain(ID, length)
    return stores.create_dataset(entry(), blocks), blocks


def follow(blocks: list[HashedBlock], *texts: str) -> list[HashedBlock]:
    """New blocks behind a chain, by the rules."""
    return author(fold(blocks), infos(*texts), system_time=blocks[-1].block.system_time)[0]


# --- creation -------------------------------------------------------------------------------


def test_a_created_dataset_has_its_blocks_as_head_and_as_objects(stores: Stores) -> None:
    dataset, blocks = created(stores, 3)
    assert dataset.head() == blocks[-1].hash
    assert dataset.blocks() == blocks
    assert stores.objects.read_ref(ID, "head") == blocks[-1].hash
    for block in blocks:
        with dataset.open_object(ObjectKind.BLOCK, block.hash) as stream:
            assert stream.read() == block.raw


def test_a_created_dataset_is_found_by_alias(stores: Stores) -> None:
    created(stores)
    assert stores.dataset(DatasetRef.parse("KAMU/foo")).id == ID
    with pytest.raises(DatasetNotFound):
        stores.dataset(DatasetRef.parse("kamu/bar"))


def test_a_second_dataset_of_the_same_name_or_id_is_refused(stores: Stores) -> None:
    created(stores)
    other = entry("Kamu/FOO", dataset=some_id("other"))
    with pytest.raises(AliasTaken):
        stores.create_dataset(other, chain(other.id)[0])
    assert list(stores.objects.list(other.id)) == []
    again = entry("kamu/bar", dataset=ID)
    with pytest.raises(DatasetIdTaken):
        stores.create_dataset(again, chain(ID)[0])


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (seed(some_id("another")), DatasetKind.Root),
        (seed(ID, DatasetKind.Derivative), DatasetKind.Root),
    ],
)
def test_the_seed_has_to_be_that_of_the_entry(
    stores: Stores, event: object, kind: DatasetKind
) -> None:
    with refusing("SeedMismatch"):
        stores.create_dataset(entry(kind=kind), [linked(None, event)])
    with refusing("SeedMismatch"):
        stores.create_dataset(entry(kind=kind), [])
    assert stores.registry.page() == []


def test_a_chain_that_breaks_the_rules_creates_nothing(stores: Stores) -> None:
    first = linked(None, seed(ID))
    with pytest.raises(ChainRuleBroken):
        stores.create_dataset(entry(), [first, linked(first, seed(ID))])
    assert stores.registry.page() == []
    assert list(stores.objects.list(ID)) == []


def test_a_renamed_and_a_forgotten_dataset(stores: Stores) -> None:
    dataset, _ = created(stores)
    stores.rename_dataset(ID, DatasetAlias.parse("kamu/new"))
    assert stores.dataset(DatasetRef.parse("kamu/new")).id == ID
    stores.forget_dataset(ID)
    assert list(stores.objects.list(ID)) == []
    assert stores.objects.read_ref(ID, "head") is None
    with pytest.raises(DatasetNotFound):
        dataset.head()
    with pytest.raises(DatasetNotFound):
        stores.forget_dataset(ID)
    created(stores)


# --- reading --------------------------------------------------------------------------------


@pytest.fixture
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_module, "PAGE", 3)


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("tail", [None, 0, 4, 6, 8])
@pytest.mark.parametrize("head", [8, 9])
def test_an_interval_is_oldest_first_without_its_tail(
    stores: Stores, head: int, tail: int | None
) -> None:
    dataset, blocks = created(stores, 10)
    after = None if tail is None else blocks[tail].hash
    expected = blocks[0 if tail is None else tail + 1 : head + 1]
    assert dataset.blocks(after=after, upto=blocks[head].hash) == expected
    if head == 9:
        assert dataset.blocks(after=after) == expected


def test_intervals_between_different_histories_are_refused(stores: Stores) -> None:
    dataset, blocks = created(stores, 4)
    branch = follow(blocks[:2], "another way", "further")
    dataset.commit([*blocks[:2], *branch], expected=blocks[-1].hash, force=True)
    with pytest.raises(InvalidInterval) as refused:
        dataset.blocks(after=blocks[2].hash)
    assert refused.value.facts == {"head": str(branch[-1].hash), "tail": str(blocks[2].hash)}
    with pytest.raises(InvalidInterval):
        dataset.blocks(after=blocks[3].hash, upto=blocks[1].hash)
    with pytest.raises(InvalidInterval):
        dataset.blocks(after=Multihash.of(b"never seen"))
    assert dataset.blocks(after=blocks[1].hash) == branch


def test_unknown_blocks_are_not_found(stores: Stores) -> None:
    dataset, blocks = created(stores, 2)
    unknown = Multihash.of(b"never seen")
    assert dataset.block(blocks[0].hash) == blocks[0]
    for look in (
        lambda: dataset.block(unknown),
        lambda: dataset.blocks(upto=unknown),
        lambda: dataset.blocks(after=blocks[0].hash, upto=unknown),
        lambda: dataset.state(unknown),
    ):
        with pytest.raises(BlockNotFound):
            look()


@pytest.mark.usefixtures("_small_pages")
def test_the_state_of_any_block_is_that_of_the_chain_up_to_it(stores: Stores) -> None:
    dataset, blocks = created(stores, 8)
    for number in (3, 7, 5, 0, 7):
        assert dataset.state(blocks[number].hash) == fold(blocks[: number + 1])
    assert dataset.state() == fold(blocks)


def test_a_state_continues_from_the_nearest_one_known(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, blocks = created(stores, 3)
    more = follow(blocks, "x")
    dataset.commit(more, expected=blocks[-1].hash)
    last = follow([*blocks, *more], "y")[0]
    stores.refs.move(ID, expected=more[-1].hash, new=last.hash, blocks=[last])
    folded: list[HashedBlock] = []

    def spy(page: list[HashedBlock], state: object) -> object:
        folded.extend(page)
        return fold(page, state)

    monkeypatch.setattr(chain_module, "fold", spy)
    assert dataset.state().sequence_number == 4
    assert folded == [last]


def test_only_so_many_states_are_kept_and_old_ones_go_first() -> None:
    cache = StateCache(capacity=2)
    heads = [Multihash.of(bytes([number])) for number in range(3)]
    state = fold(long_chain(ID, 1))
    cache.put(ID, heads[0], state)
    cache.put(ID, heads[1], state)
    cache.find(ID, heads[0])
    cache.put(ID, heads[2], state)
    assert [cache.find(ID, head) is not None for head in heads] == [True, False, True]
    assert cache.find(some_id("other"), heads[0]) is None


# --- commit ---------------------------------------------------------------------------------


def test_a_commit_writes_blocks_objects_and_the_published_head(stores: Stores) -> None:
    dataset, blocks = created(stores)
    more = follow(blocks, "x", "y")
    dataset.commit(more, expected=blocks[-1].hash)
    assert dataset.head() == stores.objects.read_ref(ID, "head") == more[-1].hash
    assert dataset.blocks(after=blocks[-1].hash) == more
    assert stores.objects.stat(ObjectKey(ID, ObjectKind.BLOCK, more[0].hash)) is not None
    assert dataset.state() == fold([*blocks, *more])


def test_blocks_of_older_versions_are_kept_byte_for_byte(stores: Stores) -> None:
    dataset, blocks = created(stores)
    old = encode_block(linked(blocks[0], SetInfo(description="old")).block, 2)
    dataset.commit([old], expected=blocks[0].hash)
    assert dataset.block(old.hash).raw == old.raw
    assert dataset.block(old.hash).version == 2


def test_committing_nothing_changes_nothing(stores: Stores) -> None:
    dataset, blocks = created(stores)
    dataset.commit([], expected=Multihash.of(b"whatever"))
    assert dataset.head() == blocks[-1].hash
    assert len(stores.refs.moves(after=0)) == 1


def test_committing_what_is_head_already_changes_nothing(stores: Stores) -> None:
    dataset, blocks = created(stores)
    more = follow(blocks, "x")
    for _ in range(2):
        dataset.commit(more, expected=blocks[-1].hash)
    assert len(stores.refs.moves(after=0)) == 2


def test_a_writer_behind_is_told_the_head(stores: Stores) -> None:
    dataset, blocks = created(stores)
    more = follow(blocks, "x")
    dataset.commit(more, expected=blocks[-1].hash)
    with pytest.raises(RefConflict) as lost:
        dataset.commit(follow(blocks, "y"), expected=blocks[-1].hash)
    assert lost.value.actual == more[-1].hash


def test_blocks_that_break_a_rule_are_not_committed(stores: Stores) -> None:
    dataset, blocks = created(stores, 2)
    earlier = linked(blocks[-1], SetInfo(description="x"), at=Instant(0))
    detached = linked(blocks[0], SetInfo(description="x"))
    for wrong in (earlier, detached):
        with pytest.raises(ChainRuleBroken):
            dataset.commit([wrong], expected=blocks[-1].hash)
        assert stores.objects.stat(ObjectKey(ID, ObjectKind.BLOCK, wrong.hash)) is None
    assert dataset.head() == blocks[-1].hash


def test_every_named_object_has_to_be_there_with_its_size(stores: Stores) -> None:
    rows = table(0, 3)
    content = parquet(rows)
    part = slice_of(content, rows, 0)
    checkpoint = checkpoint_of(b"state")
    dataset, blocks = created_with_schema(stores)
    event = AddData(new_data=part, new_checkpoint=checkpoint)
    block = linked(blocks[-1], event)
    data_key = ObjectKey(ID, ObjectKind.DATA, part.physical_hash)
    with refusing("ObjectMissing") as refused:
        dataset.commit([block], expected=blocks[-1].hash)
    assert refused.value.facts["hash"] == str(part.physical_hash)
    stores.objects.put(data_key, [content])
    with refusing("ObjectMissing") as refused:
        dataset.commit([block], expected=blocks[-1].hash)
    assert refused.value.facts["kind"] == "checkpoint"
    stores.objects.put(ObjectKey(ID, ObjectKind.CHECKPOINT, checkpoint.physical_hash), [b"state"])
    dataset.commit([block], expected=blocks[-1].hash)
    assert dataset.state().num_records == 3


def test_an_object_of_another_size_is_refused(stores: Stores) -> None:
    rows = table(0, 3)
    content = parquet(rows)
    part = slice_of(content, rows, 0)
    dataset, blocks = created_with_schema(stores)
    stores.objects.put(ObjectKey(ID, ObjectKind.DATA, part.physical_hash), [content])
    block = linked(blocks[-1], add_data(replace(part, size=part.size + 1)))
    with refusing("SizeMismatch") as refused:
        dataset.commit([block], expected=blocks[-1].hash)
    assert refused.value.facts["actual"] == part.size


def created_with_schema(stores: Stores) -> tuple[Dataset, list[HashedBlock]]:
    schema = SetDataSchema(schema=from_arrow(table(0, 1).schema))
    blocks = [linked(None, seed(ID))]
    blocks.append(linked(blocks[0], schema))
    return stores.create_dataset(entry(), blocks), blocks


# --- force ----------------------------------------------------------------------------------


def test_a_forced_commit_replaces_the_head_and_is_logged(stores: Stores) -> None:
    dataset, blocks = created(stores, 3)
    other = [blocks[0], *follow(blocks[:1], "another history")]
    dataset.commit(other, expected=Multihash.of(b"ignored"), force=True)
    assert dataset.head() == other[-1].hash
    assert dataset.blocks() == other
    [_, move] = stores.refs.moves(after=0)
    assert (move.old, move.new) == (blocks[-1].hash, other[-1].hash)


def test_a_forced_commit_may_go_back_to_an_earlier_block(stores: Stores) -> None:
    dataset, blocks = created(stores, 3)
    dataset.commit(blocks[:2], expected=blocks[-1].hash, force=True)
    assert dataset.blocks() == blocks[:2]
    dataset.commit([blocks[2]], expected=blocks[1].hash, force=True)
    assert dataset.blocks() == blocks


@pytest.mark.parametrize(
    "event",
    [seed(some_id("another")), seed(ID, DatasetKind.Derivative), SetInfo(description="no seed")],
)
def test_a_forced_commit_cannot_turn_a_dataset_into_another(stores: Stores, event: object) -> None:
    dataset, blocks = created(stores, 2)
    with pytest.raises(SeedBlockOverwriteRestricted):
        dataset.commit([linked(None, event)], expected=blocks[-1].hash, force=True)
    assert dataset.head() == blocks[-1].hash


def test_a_forced_commit_keeps_the_rules(stores: Stores) -> None:
    dataset, blocks = created(stores, 2)
    other = linked(blocks[0], SetInfo(description="x"), at=Instant(0))
    with pytest.raises(ChainRuleBroken):
        dataset.commit([blocks[0], other], expected=blocks[-1].hash, force=True)
    unknown = linked(other, SetInfo(description="x"))
    with pytest.raises(BlockNotFound):
        dataset.commit([unknown], expected=blocks[-1].hash, force=True)


# --- races ----------------------------------------------------------------------------------


def test_of_racing_commits_one_wins_and_the_others_learn_the_head(stores: Stores) -> None:
    dataset, blocks = created(stores)
    contenders = [follow(blocks, f"writer {number}") for number in range(6)]
    barrier = threading.Barrier(len(contenders))
    outcomes: list[NodeError | None] = [None] * len(contenders)

    def commit(number: int) -> None:
        barrier.wait()
        try:
            dataset.commit(contenders[number], expected=blocks[-1].hash)
        except NodeError as lost:
            outcomes[number] = lost

    writers = [threading.Thread(target=commit, args=(n,)) for n in range(len(contenders))]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    [winner] = [number for number, lost in enumerate(outcomes) if lost is None]
    head = contenders[winner][-1].hash
    losses = [lost for lost in outcomes if lost is not None]
    assert len(losses) == len(contenders) - 1
    assert all(isinstance(lost, RefConflict) and lost.actual == head for lost in losses)
    assert dataset.head() == stores.objects.read_ref(ID, "head") == head


def test_a_dataset_made_again_between_check_and_move_is_not_moved_onto_objects_that_are_gone(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = table(0, 3)
    content = parquet(rows)
    part = slice_of(content, rows, 0)
    dataset, blocks = created_with_schema(stores)
    key = ObjectKey(ID, ObjectKind.DATA, part.physical_hash)
    stores.objects.put(key, [content])
    block = linked(blocks[-1], AddData(new_data=part))
    checked = dataset_module.check_objects

    def check_then_remove(*given: Any, **named: Any) -> None:
        checked(*given, **named)
        stores.forget_dataset(ID)
        again = dataclasses.replace(entry(), created_at=Instant(entry().created_at.ns + 1))
        stores.create_dataset(again, blocks)

    monkeypatch.setattr(dataset_module, "check_objects", check_then_remove)
    with pytest.raises(DatasetNotFound):
        dataset.commit([block], expected=blocks[-1].hash)
    monkeypatch.undo()
    again = stores.dataset(DatasetRef(id=ID))
    assert again.head() == blocks[-1].hash
    with refusing("ObjectMissing"):
        again.commit([block], expected=blocks[-1].hash)
    stores.objects.put(key, [content])
    again.commit([block], expected=blocks[-1].hash)


def test_no_commit_survives_a_removal_with_a_head_whose_objects_are_gone(stores: Stores) -> None:
    """Commits, removals and creations of one Seed as they come; the objects are looked for."""
    rows = table(0, 3)
    content = parquet(rows)
    part = slice_of(content, rows, 0)
    _, blocks = created_with_schema(stores)
    block = linked(blocks[-1], AddData(new_data=part))
    key = ObjectKey(ID, ObjectKind.DATA, part.physical_hash)
    rounds = 10

    def commit() -> None:
        for _ in range(rounds):
            with contextlib.suppress(NodeError):
                dataset = stores.dataset(DatasetRef(id=ID))
                stores.objects.put(key, [content])
                dataset.commit([block], expected=blocks[-1].hash)

    def begin_again() -> None:
        for number in range(1, rounds + 1):
            if is_broken():
                broken.append(number)
            stores.forget_dataset(ID)
            at = Instant(entry().created_at.ns + number)
            stores.create_dataset(dataclasses.replace(entry(), created_at=at), blocks)

    def is_broken() -> bool:
        return stores.refs.head(ID) == block.hash and stores.objects.stat(key) is None

    broken: list[int] = []
    writers = [threading.Thread(target=work) for work in (commit, commit, begin_again)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert broken == []
    assert not is_broken()


def test_writers_that_try_again_all_get_their_blocks_in(stores: Stores) -> None:
    dataset, _ = created(stores)

    def append(number: int) -> None:
        for step in range(4):
            while True:
                head = dataset.head()
                state = dataset.state(head)
                event = SetInfo(description=f"{number}/{step}")
                blocks, _ = author(state, [event], system_time=state.system_time or Instant(0))
                try:
                    dataset.commit(blocks, expected=head)
                    break
                except RefConflict:
                    continue

    writers = [threading.Thread(target=append, args=(n,)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(dataset.blocks()) == 17
    assert stores.objects.read_ref(ID, "head") == dataset.head()
    fold(dataset.blocks())
