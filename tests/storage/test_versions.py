"""Versions of a history, what is remembered of it, and which rows are missing from its slices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from chain_maker import NOON, some_id
from refusals import refusing

from odf_protocol.chain.state import Vocab
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import DataSlice, OffsetInterval
from odf_protocol.multihash import Multihash
from odf_storage.datasets.read.view import Outline
from odf_storage.datasets.versions.dead_rows import Missing
from odf_storage.datasets.versions.versions import History, Versions

ROWS = 10


def name(text: str) -> Multihash:
    return Multihash.of(text.encode())


def slices(count: int) -> list[DataSlice]:
    return [
        DataSlice(
            logical_hash=name(f"rows {number}"),
            physical_hash=name(f"slice {number}"),
            offset_interval=OffsetInterval(start=number * ROWS, end=number * ROWS + ROWS - 1),
            size=100,
        )
        for number in range(count)
    ]


def versions(blocks: Sequence[str]) -> Versions:
    """One for each name of a block, a second apart."""
    hashes = tuple(name(block) for block in blocks)
    times = [Instant(NOON.ns + number * NANOS) for number in range(len(blocks))]
    return Versions(
        Outline(
            dataset=some_id(),
            head=hashes[-1] if hashes else name("seed"),
            vocab=Vocab(),
            schema=None,
            slices=tuple(zip(slices(len(blocks)), times, strict=True)),
            key=(),
            sequences=tuple(range(2, 2 + len(blocks))),
            blocks=hashes,
            schemas=(),
            is_marked=False,
        )
    )


def test_a_version_is_found_by_number_and_by_time():
    some = versions("abc")
    assert [each.number for each in some[:2]] == [0, 1]
    assert some.last == some.check(2) == 2
    just_before = Instant(some[1].recorded.ns - 1)
    assert (some.at(just_before), some.at(some[1].recorded)) == (0, 1)
    assert (some.since(just_before), some.since(some[1].recorded)) == (1, 1)
    for ask in (
        lambda: some.check(3),
        lambda: some.at(Instant(NOON.ns - 1)),
        lambda: some.since(Instant(NOON.ns + 9 * NANOS)),
        lambda: versions("").check(1),
    ):
        with refusing("NoSuchVersion"):
            ask()


def test_rows_belong_to_the_version_that_added_them():
    assert versions("abc").of_offsets([0, 9, 10, 25, 29]) == [0, 1, 2]


def test_a_history_that_goes_on_keeps_its_identity():
    first = History().continued(versions("ab"), (1,))
    later = first.continued(versions("abcd"), (3,))
    assert (later.version, later.changed) == (3, (1, 3))
    assert later.identity(some_id(), "default") == History().identity(some_id(), "default")
    assert later.identity(some_id(), "state") != later.identity(some_id(), "default")


@pytest.mark.parametrize("other", ["", "a", "ax", "axc"])
def test_a_history_that_is_replaced_becomes_another_one(other):
    known = History().continued(versions("ab"), (1,))
    assert not known.is_of(versions(other))
    after = known.continued(versions(other), ())
    assert (after.version, after.changed, after.replaced) == (len(other) - 1, (), 1)
    assert after.identity(some_id(), "default") != known.identity(some_id(), "default")
    again = after.continued(versions("ab"), ())
    assert again.identity(some_id(), "default") != known.identity(some_id(), "default")


def test_what_is_missing_is_gathered_slice_by_slice():
    living = np.array([0, 1, 2, 12, 13, *range(20, 30)], np.int64)
    for cut in range(len(living) + 1):
        missing = Missing(slices(3), 10_000)
        missing.add(living[:cut])
        missing.add(living[cut:])
        found = missing.found()
        counts = {each: bitmap.cardinality for each, bitmap in found.items()}
        assert counts == {str(name("slice 0")): 7, str(name("slice 1")): 8}


def test_without_living_rows_every_row_is_missing():
    assert [each.cardinality for each in Missing(slices(2), 10_000).found().values()] == [10, 10]


def test_bitmaps_have_a_limit():
    with refusing("TooManyDeadRows"):
        Missing(slices(2), 60).found()
