"""What every `RefIndex` promises. Subclasses give a fixture `index`."""

from __future__ import annotations

import dataclasses
import threading
from datetime import timedelta

import pytest
from chain_maker import chain, entry, infos, linked, some_id
from index_parts import Index
from refusals import refusing

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import HashedBlock, SetInfo
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import DatasetNotFound, LeaseLost, RefConflict
from odf_storage.stores.ports.values import HeadMove, JobEnd, JobSpec, JobStatus, Succeeded


def started(index: Index, alias: str = "kamu/foo") -> HashedBlock:
    """A dataset of one block."""
    created = entry(alias)
    blocks, _ = chain(created.id)
    index.registry.create(created, blocks=blocks)
    return blocks[0]


ID = entry().id


class RefIndexContract:
    def test_a_dataset_created_again_has_not_moved_whatever_the_one_before_did(
        self, index: Index
    ) -> None:
        first = started(index)
        assert not index.refs.has_moved(ID)
        second = linked(first, SetInfo(description="second"))
        index.refs.move(ID, expected=first.hash, new=second.hash, blocks=[second])
        index.refs.move(ID, expected=second.hash, new=first.hash)
        assert index.refs.has_moved(ID)
        index.registry.forget(ID)
        started(index)
        assert not index.refs.has_moved(ID)

    def test_a_moved_head_is_the_new_head(self, index: Index) -> None:
        seed = started(index)
        block = linked(seed, infos("x")[0])
        index.refs.move(ID, expected=seed.hash, new=block.hash, blocks=[block])
        assert index.refs.head(ID) == block.hash
        assert index.blocks.find(ID, block.hash) == block

    def test_heads_of_several_datasets_are_told_by_one_look_and_absent_ones_are_left_out(
        self, index: Index
    ) -> None:
        names = ("kamu/one", "kamu/two", "kamu/three")
        seeds = {entry(name).id: started(index, name).hash for name in names}
        index.registry.forget(entry("kamu/three").id)
        expected = {each: seeds[each] for each in (entry(name).id for name in names[:2])}
        assert index.refs.heads([*seeds, some_id("nobody")]) == expected
        assert index.refs.heads([]) == {}

    def test_a_writer_that_saw_an_older_head_is_told_the_newer_one(self, index: Index) -> None:
        seed = started(index)
        first, second = (linked(seed, event) for event in infos("x", "y"))
        index.refs.move(ID, expected=seed.hash, new=first.hash, blocks=[first])
        with pytest.raises(RefConflict) as lost:
            index.refs.move(ID, expected=seed.hash, new=second.hash, blocks=[second])
        assert (lost.value.expected, lost.value.actual) == (seed.hash, first.hash)
        assert index.refs.head(ID) == first.hash

    def test_the_loser_leaves_neither_blocks_nor_a_line_of_the_log(self, index: Index) -> None:
        seed = started(index)
        block = linked(seed, infos("x")[0])
        with pytest.raises(RefConflict):
            index.refs.move(ID, expected=block.hash, new=block.hash, blocks=[block])
        assert index.blocks.find(ID, block.hash) is None
        assert len(index.refs.moves(after=0)) == 1

    def test_blocks_that_are_there_already_are_no_obstacle(self, index: Index) -> None:
        seed = started(index)
        block = linked(seed, infos("x")[0])
        for old, new in ((seed, block), (block, seed), (seed, block)):
            index.refs.move(ID, expected=old.hash, new=new.hash, blocks=[seed, block])
        assert index.refs.head(ID) == block.hash

    def test_a_dataset_that_was_made_again_is_not_moved_by_who_knew_the_old_one(
        self, index: Index
    ) -> None:
        seed = started(index)
        old = index.registry.get(DatasetRef(id=ID))
        index.registry.forget(ID)
        later = Instant(old.created_at.ns + 1)
        index.registry.create(dataclasses.replace(old, created_at=later), blocks=[seed])
        block = linked(seed, infos("x")[0])
        with pytest.raises(DatasetNotFound):
            index.refs.move(ID, expected=seed.hash, new=block.hash, blocks=[block], of=old)
        assert index.refs.head(ID) == seed.hash
        assert index.blocks.find(ID, block.hash) is None
        new = index.registry.get(DatasetRef(id=ID))
        index.refs.move(ID, expected=seed.hash, new=block.hash, blocks=[block], of=new)
        assert index.refs.head(ID) == block.hash

    def test_every_move_is_a_line_of_the_log_in_order(self, index: Index) -> None:
        seed = started(index)
        block = linked(seed, infos("x")[0])
        index.refs.move(ID, expected=seed.hash, new=block.hash, blocks=[block])
        created, moved = index.refs.moves(after=0)
        assert created.number < moved.number
        assert (moved.dataset, moved.ref) == (ID, "head")
        assert (moved.old, moved.new) == (seed.hash, block.hash)
        assert moved.at > created.at

    def test_the_log_is_read_from_a_cursor_in_pages(self, index: Index) -> None:
        for name in "abcde":
            started(index, f"kamu/{name}")
        seen, cursor = [], 0
        while page := index.refs.moves(after=cursor, limit=2):
            assert len(page) <= 2
            seen += [move.dataset for move in page]
            cursor = page[-1].number
        assert seen == [entry(f"kamu/{name}").id for name in "abcde"]
        assert index.refs.moves(after=cursor) == []

    def test_the_end_of_the_log_is_its_largest_number(self, index: Index) -> None:
        assert index.refs.log_end() == 0
        for name in "ab":
            started(index, f"kamu/{name}")
        assert index.refs.log_end() == index.refs.moves(after=0)[-1].number

    def test_the_head_of_an_absent_dataset_is_not_found(self, index: Index) -> None:
        with pytest.raises(DatasetNotFound):
            index.refs.head(some_id())
        with pytest.raises(DatasetNotFound):
            index.refs.move(some_id(), expected=Multihash.of(b"a"), new=Multihash.of(b"b"))

    @pytest.mark.parametrize("ref", ["other", "\0", "\ud800"])
    def test_another_reference_is_not_found(self, index: Index, ref: str) -> None:
        started(index)
        with refusing("RefNotFound"):
            index.refs.head(ID, ref)

    def test_of_many_racing_writers_one_wins_and_the_others_learn_the_head(
        self, index: Index
    ) -> None:
        seed = started(index)
        blocks = [linked(seed, SetInfo(description=str(number))) for number in range(8)]
        barrier = threading.Barrier(len(blocks))
        outcomes: dict[Multihash, NodeError | None] = {}

        def move(block: HashedBlock) -> None:
            barrier.wait()
            try:
                index.refs.move(ID, expected=seed.hash, new=block.hash, blocks=[block])
                outcomes[block.hash] = None
            except NodeError as lost:
                outcomes[block.hash] = lost

        writers = [threading.Thread(target=move, args=(block,)) for block in blocks]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        [winner] = [block for block, lost in outcomes.items() if lost is None]
        losses = [lost for lost in outcomes.values() if lost is not None]
        assert len(losses) == len(blocks) - 1
        assert all(isinstance(lost, RefConflict) and lost.actual == winner for lost in losses)
        assert index.refs.head(ID) == winner
        assert len(index.refs.moves(after=0)) == 2

    def test_a_reader_of_the_log_never_misses_a_line_of_a_concurrent_writer(
        self, index: Index
    ) -> None:
        names = [f"kamu/w{number}" for number in range(4)]
        seeds = {name: started(index, name) for name in names}
        done, seen, cursor = threading.Event(), [], 0

        def write(name: str) -> None:
            head = seeds[name]
            for number in range(15):
                block = linked(head, SetInfo(description=str(number)))
                dataset = entry(name).id
                index.refs.move(dataset, expected=head.hash, new=block.hash, blocks=[block])
                head = block

        writers = [threading.Thread(target=write, args=(name,)) for name in names]
        watcher = threading.Thread(target=lambda: [w.join() for w in writers] and done.set())
        for thread in (*writers, watcher):
            thread.start()
        finished = False
        while not finished:
            finished = done.is_set()
            for move in index.refs.moves(after=cursor):
                assert move.number > cursor
                seen.append(move)
                cursor = move.number
        watcher.join()
        while page := index.refs.moves(after=cursor):
            seen += page
            cursor = page[-1].number
        assert len(seen) == len(names) * 16
        assert list(index.refs.moves(after=0, limit=1000)) == seen

    def test_a_job_ends_with_the_move_it_made_or_not_at_all(self, stores: Stores) -> None:
        created = entry()
        blocks, _ = chain(created.id)
        stores.registry.create(created, blocks=blocks)
        jobs = [stores.jobs.submit(JobSpec("ingest", ID, {}, body=b"x")) for _ in range(2)]
        for _ in jobs:
            stores.jobs.claim("w", ["ingest"], lease=timedelta(seconds=30))
        ends = [JobEnd(job, "w", Succeeded({"n": at})) for at, job in enumerate(jobs)]
        first, second = (linked(blocks[-1], event) for event in infos("x", "y"))
        stores.refs.move(
            ID, expected=blocks[-1].hash, new=first.hash, blocks=[first], ended=ends[:1]
        )
        assert stores.jobs.get(jobs[0]).outcome == Succeeded({"n": 0})
        with pytest.raises(RefConflict):
            stores.refs.move(
                ID, expected=blocks[-1].hash, new=second.hash, blocks=[second], ended=ends[1:]
            )
        assert stores.jobs.get(jobs[1]).status is JobStatus.RUNNING
        stores.jobs.cancel(jobs[1])
        third = linked(first, infos("z")[0])
        with pytest.raises(LeaseLost):
            stores.refs.move(
                ID, expected=first.hash, new=third.hash, blocks=[third], ended=ends[1:]
            )
        assert stores.refs.head(ID) == first.hash
        assert stores.blocks.find(ID, third.hash) is None
        assert len(stores.refs.moves(after=0)) == 2

    def test_heads_of_several_datasets_move_together_each_by_its_own_swap(
        self, stores: Stores
    ) -> None:
        names = "a", "b", "c", "d"
        entries = {name: entry(f"kamu/{name}") for name in names}
        heads, jobs = {}, {}
        for name, created in entries.items():
            blocks, _ = chain(created.id)
            stores.registry.create(created, blocks=blocks)
            heads[name] = blocks[-1]
            jobs[name] = stores.jobs.submit(JobSpec("ingest", created.id, {}))
            stores.jobs.claim("w", ["ingest"], lease=timedelta(seconds=30))
        stores.jobs.cancel(jobs["b"])
        stray = linked(heads["c"], SetInfo(description="never here"))
        news = {name: linked(heads[name], SetInfo(description=name)) for name in names}
        wanted = [
            HeadMove(
                entries[name].id,
                expected=stray.hash if name == "c" else heads[name].hash,
                new=news[name].hash,
                blocks=(news[name],),
                ended=(JobEnd(jobs[name], "w", Succeeded({"of": name})),),
                of=entries[name],
            )
            for name in names
        ]
        gone = dataclasses.replace(wanted[0], dataset=some_id(), of=None, ended=())
        refused = stores.refs.move_all([*wanted, gone])
        assert [type(error) for error in refused] == [
            type(None),
            LeaseLost,
            RefConflict,
            type(None),
            DatasetNotFound,
        ]
        for name in names:
            moved = name in ("a", "d")
            dataset, new = entries[name].id, news[name]
            assert (stores.refs.head(dataset) == new.hash) == moved
            assert (stores.blocks.find(dataset, new.hash) is not None) == moved
            assert (stores.jobs.get(jobs[name]).outcome is not None) == moved
        assert [m.new for m in stores.refs.moves(after=4)] == [news["a"].hash, news["d"].hash]
