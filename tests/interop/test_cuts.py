"""Connections that are cut anywhere: nothing wrong is ever seen, and the next try finishes.

Every step of a transfer is cut before it, after its first byte, in the middle, before its last
byte and after it; politely (the stream ends) or rudely (a reset).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from mimic import (
    Chain,
    CloseReason,
    Cut,
    GaveUp,
    Mimic,
    NodeUnderTest,
    Portion,
    Scissors,
    object_name,
)
from servers import wait_until

from odf_conformance.chains import evolved, hash_of, ten_records
from odf_protocol.identity import DatasetRef
from odf_storage.stores.objects.layout import dataset_path

SENT = tuple(Portion)
HEARD = (Portion.NOTHING, Portion.FIRST_BYTE, Portion.WHOLE)
PUSH = (
    *("head", "upgrade", "request", "blocks", "objects", "put data", "put checkpoints"),
    *("complete", "finish", "close"),
)
PULL = ("head", "upgrade", "request", "metadata", "objects", "get data", "get checkpoints", "close")
UNANSWERED = {"complete", "close"}
TRIES = 5


def cuts(steps: tuple[str, ...], *ways: str) -> list[object]:
    points = [(step, portion) for step in steps for portion in SENT]
    points += [(f"{step} answer", at) for step in steps if step not in UNANSWERED for at in HEARD]
    return [
        pytest.param(step, portion, way == "reset", id=f"{step}, {portion.value}, {way}")
        for step, portion in points
        for way in ways
    ]


@dataclass
class Tally:
    """What cut pushes left in the store beside what chains name."""

    cuts: int = 0
    orphans: int = 0
    most: int = 0


@pytest.fixture(scope="module")
def tally():
    return Tally()


def cut_short(work, scissors: Scissors) -> None:
    with pytest.raises(Cut):
        work()
    assert scissors.done


def push_until_it_holds(mimic: Mimic, chain: Chain) -> None:
    """Push again. Only the commit of the push that was cut may still be in the way, briefly."""
    for _ in range(TRIES):
        ended = given_up(mimic, chain)
        if ended is None:
            return
        # the head moved under our feet: the push that was cut off has just been committed
        assert ended.why in (CloseReason.INTERNAL, CloseReason.REF_COLLISION), ended
        time.sleep(0.05)
    raise AssertionError(f"{TRIES} pushes in a row were given up")


def given_up(mimic: Mimic, chain: Chain) -> GaveUp | None:
    try:
        mimic.push(chain)
    except GaveUp as ended:
        return ended
    return None


def files_of(single_node, chain: Chain) -> dict[str, bytes]:
    """Every object the node keeps for the dataset; not what is just being written."""
    kept = [path for path in paths_of(single_node, chain) if not path.name.startswith(".")]
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in kept}


def paths_of(single_node, chain: Chain) -> list[Path]:
    """Every file in the folders of the dataset, apart from references and notes."""
    folder = single_node.data / dataset_path(chain.id)
    folders = [folder / kind for kind in ("blocks", "data", "checkpoints")]
    return [path for one in folders if one.is_dir() for path in one.iterdir()]


def named_by(chain: Chain) -> set[str]:
    blocks = {f"blocks/{block.hash}" for block in chain.blocks}
    return blocks | {"/".join(object_name(file)) for file in chain.files()}


def expect_nothing_wrong(single_node, mimic: Mimic, chain: Chain, allowed: set[str | None]) -> int:
    """The head is one of those, what it names is there, files are what they say; orphans."""
    head = mimic.head()
    assert head in allowed
    if head is None:
        return 0
    local = Chain()
    mimic.simple_pull(local)
    assert local.blocks == chain.blocks[: len(local.blocks)]
    kept = files_of(single_node, chain)
    assert {name for name, content in kept.items() if hash_of(content) != name[-69:]} == set()
    assert named_by(local) <= set(kept)
    orphans = set(kept) - named_by(local)
    assert orphans <= named_by(chain)
    return len(orphans)


def expect_whole(single_node, mimic: Mimic, chain: Chain) -> None:
    """The dataset is the chain, nothing less and nothing beside it; the node's own check agrees."""
    local = Chain()
    mimic.simple_pull(local)
    assert local == chain.upto(len(chain.blocks))
    # the push that was cut may be about to notice that it came too late
    wait_until(lambda: len(paths_of(single_node, chain)) == len(named_by(chain)), "the last writer")
    assert set(files_of(single_node, chain)) == named_by(chain)
    kept = single_node.node.stores.dataset(DatasetRef(id=chain.id))
    assert str(kept.head()) == chain.head


def play(
    single: NodeUnderTest, single_node, tally: Tally, url: str, chain: Chain, cut: Scissors
) -> None:
    """A push that is cut, a look, another push, another look."""
    mimic = single.mimic(url)
    before = mimic.head()
    cutting = Mimic(url, single.token, scissors=cut)
    cut_short(lambda: cutting.push(chain), cut)
    seed = chain.blocks[0].hash if before is None else before
    orphans = expect_nothing_wrong(single_node, mimic, chain, {before, seed, chain.head})
    tally.cuts, tally.orphans = tally.cuts + 1, tally.orphans + orphans
    tally.most = max(tally.most, orphans)
    push_until_it_holds(mimic, chain)
    expect_whole(single_node, mimic, chain)


@pytest.mark.scenario("Z22")
@pytest.mark.parametrize(("step", "portion", "reset"), cuts(PUSH, "end", "reset"))
def test_a_push_of_a_new_dataset_may_be_cut_anywhere(
    single, single_node, tally, step, portion, reset
):
    cut = Scissors(step, portion, reset)
    play(single, single_node, tally, single.fresh(), ten_records(), cut)


@pytest.mark.scenario("Z22")
@pytest.mark.parametrize(("step", "portion", "reset"), cuts(PUSH, "end"))
def test_a_push_of_new_blocks_may_be_cut_anywhere(single, single_node, tally, step, portion, reset):
    made = single.publish(ten_records())
    play(single, single_node, tally, made.url, evolved(made.chain), Scissors(step, portion, reset))


@pytest.fixture(scope="module")
def source(single):
    return single.publish(ten_records())


@pytest.mark.scenario("A07")
@pytest.mark.parametrize(("step", "portion", "reset"), cuts(PULL, "reset"))
def test_a_pull_may_be_cut_anywhere(single, source, step, portion, reset):
    cut, local = Scissors(step, portion, reset), Chain()
    cut_short(lambda: Mimic(source.url, single.token, scissors=cut).pull(local), cut)
    arrived = set(local.objects)
    assert local.blocks in ([], source.chain.blocks)
    again = single.mimic(source.url)
    again.pull(local)
    assert local == source.chain
    assert len([line for line in again.trace if line.startswith("GET ")]) <= 3 - len(arrived)


def test_what_cut_pushes_leave_behind_is_little_and_gone_after_the_next_one(tally):
    most = len(named_by(ten_records())) - 1  # everything but the Seed
    assert tally.most <= most
    assert tally.orphans <= tally.cuts * most
