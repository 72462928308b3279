"""Pushed blocks that are validated before the head moves: sound ones get in, others are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusals import refusing
from tests.workers.derivatives import add_rows, commit, derivative, moment, node_of, root
from tests.workers.verify.test_elsewhere import forged_watermarks
from tests.workers.verify.test_verification import another_number, forged
from throwaway import throwaway_stores

from odf_protocol.metadata.events import ExecuteTransform, HashedBlock, SetInfo
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset, check_objects, put_blocks
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.job_payloads.verify_job import VerifyAnswer, VerifyPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import reset
from odf_storage.datasets.verify.note import read_note
from odf_storage.stores.ports.errors import ObjectNotFound, RefConflict
from odf_workers.jobs.transform import replay
from odf_workers.jobs.transform.run import run_transform
from odf_workers.jobs.verify.candidate import run_candidate

COPY = "select event_time, city, n * 10 as n from cities"
NOW = moment(5000)


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(stores: Stores, tmp_path: Path) -> Any:
    return node_of(stores, tmp_path)


@pytest.fixture
def made(stores: Stores, bench: Any, tmp_path: Path) -> Dataset:
    """A derivative with one execution."""
    source = root(stores, "cities")
    add_rows(stores, source, [("2024-01-01T00:00:00Z", "a", 1)] * 3, tmp_path, at=10)
    made = derivative(stores, "tenfold", [source], COPY)
    run_transform(stores, made, TransformPayload(), bench, now=moment(100))
    return made


def pushed(stores: Stores, dataset: Dataset) -> list[HashedBlock]:
    """Everything behind the definition is taken out of the chain; objects and blocks stay."""
    first = next(b for b in dataset.blocks() if isinstance(b.event, ExecuteTransform))
    before = dataset.block(first.prev)  # type: ignore[arg-type]
    while before.prev is not None and type(before.event).__name__ == "SetDataSchema":
        before = dataset.block(before.prev)
    blocks = dataset.blocks(after=before.hash)
    reset(stores, dataset.entry, target=before.hash)
    stores.refs.prune(dataset.id, heads=[before.hash])
    put_blocks(stores.objects, dataset.id, blocks)
    check_objects(stores.objects, dataset.id, blocks)
    return blocks


def admitted(
    stores: Stores, dataset: Dataset, bench: Any, blocks: list[HashedBlock], **more: Any
) -> VerifyAnswer:
    payload = VerifyPayload(
        candidate=str(blocks[-1].hash), expected=str(more.pop("expected", blocks[0].prev)), **more
    )
    return run_candidate(stores, dataset, payload, bench, now=NOW)


def test_sound_blocks_become_the_head_and_are_noted(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    head = made.head()
    blocks = pushed(stores, made)
    assert made.head() != head
    answer = admitted(stores, made, bench, blocks)
    assert (answer.ok, answer.head, made.head()) == (True, str(head), head)
    assert answer.datasets[0].replayed == 1
    note = read_note(stores.objects, made.id)
    assert note is not None
    assert (note.ok, note.block, note.replayed) == (True, str(head), 1)


def test_a_repeated_job_finds_its_work_done(stores: Stores, made: Dataset, bench: Any) -> None:
    blocks = pushed(stores, made)
    admitted(stores, made, bench, blocks)
    assert admitted(stores, made, bench, blocks).ok


def test_forged_blocks_never_become_the_head(
    stores: Stores, made: Dataset, bench: Any, tmp_path: Path
) -> None:
    block = forged(stores, made, tmp_path, another_number)
    blocks = pushed(stores, made)
    before = made.head()
    with refusing("NotValidated", match="DataNotReproducible") as refused:
        admitted(stores, made, bench, blocks)
    assert refused.value.facts["block"] == str(block.hash)
    assert made.head() == before


def test_blocks_computed_from_a_forged_checkpoint_never_become_the_head(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    source = root(stores, "cities")
    made = derivative(stores, "tenfold", [source], COPY)
    with pytest.MonkeyPatch.context() as patch:
        forged_watermarks(patch)
        for day in (1, 2):
            when = f"2024-01-0{day}T00:00:00Z"
            add_rows(stores, source, [(when, "a", 1)], tmp_path, at=10 * day, watermark=when)
            run_transform(stores, made, TransformPayload(), bench, now=moment(100 * day))
    blocks = pushed(stores, made)
    with refusing("NotValidated", match="new_watermark") as refused:
        admitted(stores, made, bench, blocks)
    assert refused.value.facts["block"] == str(blocks[-1].hash)


def test_a_later_push_that_goes_on_from_state_of_another_node_is_let_in(
    stores: Stores, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "holds_state", lambda _: True)
    source = root(stores, "cities")
    made = derivative(stores, "tenfold", [source], COPY)
    for day in (1, 2):
        when = f"2024-01-0{day}T00:00:00Z"
        add_rows(stores, source, [(when, "a", 1)], tmp_path, at=10 * day, watermark=when)
        run_transform(stores, made, TransformPayload(), bench, now=moment(100 * day))
    blocks = pushed(stores, made)
    for some in (blocks[:-1], blocks[-1:]):
        assert admitted(stores, made, bench, some).datasets[0].replayed == 1
    assert made.head() == blocks[-1].hash


def test_blocks_that_cannot_be_verified_here_stay_out(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    blocks = pushed(stores, made)
    [source] = [i for i in made.state().declared_inputs or () if i is not None]
    stores.forget_dataset(source)
    with refusing("NotValidated", match="NotVerifiable"):
        admitted(stores, made, bench, blocks)


def test_the_head_that_was_pushed_onto_has_to_be_the_head_still(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    blocks = pushed(stores, made)
    commit(made, SetInfo(description="meanwhile"), at=300)
    with pytest.raises(RefConflict):
        admitted(stores, made, bench, blocks)


def test_a_push_onto_a_head_that_was_left_is_refused_before_anything_is_made_again(
    stores: Stores, made: Dataset, tmp_path: Path
) -> None:
    blocks = pushed(stores, made)
    commit(made, SetInfo(description="meanwhile"), at=300)
    with pytest.raises(RefConflict):
        admitted(stores, made, None, blocks)


def test_a_forced_push_of_an_earlier_head_goes_back_to_it(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    earlier, blocks = made.head(), made.blocks()
    commit(made, SetInfo(description="later"), at=300)
    answer = admitted(stores, made, bench, blocks, expected=made.head(), force=True)
    assert (answer.ok, answer.head) == (True, str(earlier))
    assert made.head() == earlier
    with pytest.raises(RefConflict):
        admitted(stores, made, bench, blocks[:-1], expected=blocks[1].hash)


def test_blocks_that_were_in_the_chain_once_are_validated_again(
    stores: Stores, made: Dataset, bench: Any, tmp_path: Path
) -> None:
    forged(stores, made, tmp_path, another_number)
    first = next(b for b in made.blocks() if isinstance(b.event, ExecuteTransform))
    head = made.head()
    assert first.prev is not None
    reset(stores, made.entry, target=first.prev)  # the index still has them
    with refusing("NotValidated"):
        run_candidate(
            stores,
            made,
            VerifyPayload(candidate=str(head), expected=str(first.prev)),
            bench,
            now=NOW,
        )


def test_a_candidate_that_was_not_put_is_not_found(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    payload = VerifyPayload(candidate=str(Multihash.of(b"x")), expected=str(made.head()))
    with pytest.raises(ObjectNotFound):
        run_candidate(stores, made, payload, bench, now=NOW)
