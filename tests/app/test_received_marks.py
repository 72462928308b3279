"""The mark of received rows that are hashed later: no push and no job loses it or leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from chain_maker import slice_of, table
from msgspec.structs import replace
from upkeep_parts import begun, dataset_of, next_block, put_slice

from odf_node.service.transfer.admission import Receiving, commit_received
from odf_protocol.errors import Unavailable
from odf_protocol.metadata.events import HashedBlock
from odf_storage.datasets.contents.slice_limits import GateLimits
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.gate.gate import SliceGate
from odf_storage.datasets.job_payloads import verify_job
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.verify.pending import NOTE, Unverified, read_unverified, write_unverified
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import DatasetEntry, Succeeded
from odf_workers.jobs.verify.rows import hash_rows

LIMITS = GateLimits(memory=512 << 20, seconds=60.0, ratio=100, hashed_at_once=0)


class Pushes:
    """A dataset that receives pushes whose rows are hashed later."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.entry: DatasetEntry
        self.entry, self.blocks = begun(stores, "anna/foo")
        self.receiving = Receiving(stores, SliceGate(LIMITS), system_clock)

    @property
    def dataset(self) -> Dataset:
        return dataset_of(self.stores, self.entry)

    @property
    def mark(self) -> Unverified | None:
        return read_unverified(self.stores.objects, self.entry.id)

    def block(self, value: str = "a", *, start: int = 0, wrong: bool = False) -> HashedBlock:
        """Return the next block; `wrong` rows are not those that the block declares."""
        part = put_slice(self.stores, self.entry, start, value=value)
        if wrong:
            other = table(start, 3, value="other")
            part = replace(part, logical_hash=slice_of(b"", other, start).logical_hash)
        return next_block(self.blocks, part)

    def push(self, block: HashedBlock, *, force: bool = False) -> None:
        expected = block.prev
        assert expected is not None
        commit_received(self.receiving, self.dataset, [block], expected=expected, force=force)

    def hash_all(self) -> list[bool]:
        """Run the jobs that wait, and return their results."""
        results, jobs = list[bool](), self.stores.jobs
        lease = timedelta(seconds=60)
        while (job := jobs.claim("w", [verify_job.KIND], lease=lease)) is not None:
            payload = verify_job.payload_of(job.spec.payload)
            answer = hash_rows(self.stores, self.dataset, payload, LIMITS, lambda: None)
            jobs.finish(job.id, "w", Succeeded({}))
            results.append(answer.ok)
        return results


@pytest.fixture
def pushes(tmp_path: Path) -> Iterator[Pushes]:
    stores = open_stores(StoreSettings(data=tmp_path, durable=False))
    yield Pushes(stores)
    stores.close()


def overtaken(pushes: Pushes, monkeypatch: pytest.MonkeyPatch, by: Callable[[], None]) -> None:
    """Call `by` once, when the next push was judged and its head has not moved."""
    judge, waiting = Dataset.judge, [by]

    def judged(self: Dataset, *args: object, **more: object) -> object:
        state = judge(self, *args, **more)  # type: ignore[arg-type]
        if waiting:
            waiting.pop()()
        return state

    monkeypatch.setattr(Dataset, "judge", judged)


def test_a_push_that_loses_leaves_the_mark_of_the_winner(
    pushes: Pushes, monkeypatch: pytest.MonkeyPatch
) -> None:
    loser, winner = pushes.block("a", wrong=True), pushes.block("b", wrong=True)
    overtaken(pushes, monkeypatch, lambda: pushes.push(winner))
    with pytest.raises(RefConflict):
        pushes.push(loser)
    assert pushes.dataset.head() == winner.hash
    assert pushes.mark is not None
    assert pushes.mark.upto == str(winner.hash)
    assert pushes.hash_all() == [False]
    assert pushes.mark.problem is not None


def test_a_push_that_fails_takes_its_mark_back_and_what_was_marked_before_is_hashed(
    pushes: Pushes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        assert pushes.hash_all() == [True]
        raise Unavailable("the database is not available")

    first = pushes.block()
    pushes.push(first)
    pushes.blocks.append(first)
    second = pushes.block(start=3)
    with monkeypatch.context() as broken:
        broken.setattr(Dataset, "commit", fail)
        with pytest.raises(Unavailable):
            pushes.push(second)
    assert pushes.mark is not None
    assert pushes.mark.upto == str(first.hash)
    assert pushes.hash_all() == [True]
    assert pushes.mark is None


def test_rows_stay_marked_if_only_the_copy_of_the_head_cannot_be_written(
    pushes: Pushes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Unavailable("the object store is not available")

    block = pushes.block(wrong=True)
    monkeypatch.setattr(pushes.stores.objects, "write_refs", fail)
    with pytest.raises(Unavailable):
        pushes.push(block)
    assert pushes.dataset.head() == block.hash
    assert pushes.mark is not None
    assert pushes.hash_all() == [False]
    assert pushes.mark.problem is not None


@pytest.mark.parametrize("wrong", [False, True])
def test_two_pushes_before_the_first_job_are_both_judged(pushes: Pushes, wrong: bool) -> None:
    for start in (0, 3):
        block = pushes.block(start=start, wrong=wrong and start > 0)
        pushes.push(block)
        pushes.blocks.append(block)
    assert pushes.hash_all() == [True, not wrong]
    if wrong:
        assert pushes.mark is not None
        assert pushes.mark.problem is not None
    else:
        assert pushes.mark is None


def test_a_problem_of_any_length_keeps_the_mark(pushes: Pushes) -> None:
    note = Unverified(after=None, upto=str(pushes.dataset.head()), since="2050", problem='"ü' * 900)
    write_unverified(pushes.stores.objects, pushes.entry.id, note)
    found = pushes.mark
    assert found is not None
    assert found.problem is not None
    assert found == replace(note, problem=found.problem)
    assert note.problem is not None
    assert note.problem.startswith(found.problem)
    assert len(found.problem) > 100


def test_a_mark_that_cannot_be_read_is_one_until_all_rows_were_hashed(pushes: Pushes) -> None:
    pushes.stores.objects.write_info(pushes.entry.id, NOTE, '{"after":')
    assert pushes.mark is not None
    assert pushes.mark.problem is not None
    pushes.push(pushes.block())
    assert pushes.hash_all() == [True]
    assert pushes.mark is None
