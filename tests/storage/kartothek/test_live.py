"""Rows that stand, moved on block by block: always those that are worked out from all blocks at
once, whatever was kept of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chain_maker import infos, linked
from kartothek_published import A2, A, C, D, Growing, Killed, Publisher, R, Watched, extend

from odf_storage.datasets.kartothek import live_index, matching
from odf_storage.datasets.kartothek.definition import Mode
from odf_storage.datasets.kartothek.live import chain_view, standing_rows
from odf_storage.datasets.kartothek.live_index import forget_live
from odf_storage.datasets.read.read import scanning
from odf_storage.datasets.read.view import view_of_dataset
from odf_storage.stores.keyed.folder import FolderKeyedStore
from odf_storage.stores.ports import KeyedStore
from odf_storage.stores.ports.errors import SwapLost
from odf_storage.stores.ports.values import ObjectKind

KEYS: tuple[tuple[str, ...] | None, ...] = (("city",), ("city", "pop"), None)
Standing = tuple[list[int], int]


def standing_of(made: Growing, key: Sequence[str] | None, kept: KeyedStore | None) -> Standing:
    chain = chain_view(made.dataset)
    with scanning(view_of_dataset(made.dataset, chain.head.hash)) as scan:
        offsets, unmatched = standing_rows(scan, chain, key, kept)
    return offsets.tolist(), unmatched


@pytest.fixture
def kept(tmp_path: Path) -> FolderKeyedStore:
    return FolderKeyedStore(tmp_path / "kept", durable=False)


def any_block(chance: random.Random) -> list[tuple[int, Any, Any]]:
    """Rows of few values: doubles, keys that move, rows that take back what is not there."""
    return [
        (
            chance.choice([A, A, A, R, C, D]),
            chance.choice(["a", "b", "", None]),
            chance.randint(0, 2),
        )
        for _ in range(chance.randint(0, 6))
    ]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_block_by_block_the_rows_are_those_of_all_blocks_at_once(
    made: Growing, kept: FolderKeyedStore, key: Sequence[str] | None, seed: int
) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        for _ in range(chance.randint(1, 3)):
            made.add(any_block(chance) or [(A, "a", 0)])
        assert standing_of(made, key, kept) == standing_of(made, key, None)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_rows_that_share_a_hash_are_told_apart(
    made: Growing, kept: FolderKeyedStore, key: Sequence[str] | None, monkeypatch: Any
) -> None:
    same = lambda columns: np.full(len(columns[0]), 7, np.uint64)  # noqa: E731
    monkeypatch.setattr(matching, "key_hashes", same)
    chance = random.Random(1)
    for _ in range(8):
        made.add([(A, "z", 9), *any_block(chance)])
        assert standing_of(made, key, kept) == standing_of(made, key, None)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_columns_without_a_hash_cost_time_and_lose_nothing(
    made: Growing, kept: FolderKeyedStore, key: Sequence[str] | None, monkeypatch: Any
) -> None:
    monkeypatch.setattr(matching, "_is_hashed", lambda _: False)
    for block in A2:
        made.add(block)
        assert standing_of(made, key, kept) == standing_of(made, key, None)


def opened_by(made: Growing, monkeypatch: Any, work: Callable[[], object]) -> list[int]:
    """Numbers of the slices that are opened meanwhile."""
    names = {part.physical_hash: at for at, part in enumerate(made.parts)}
    opened = []
    plain = type(made.dataset).open_whole

    def open_whole(self: Any, kind: ObjectKind, name: Any, *more: Any) -> Any:
        opened.append(names[name])
        return plain(self, kind, name, *more)

    with monkeypatch.context() as patch:
        patch.setattr(type(made.dataset), "open_whole", open_whole)
        work()
    return sorted(set(opened))


@pytest.mark.parametrize("key", [("city",), None], ids=str)
def test_a_refresh_opens_new_slices_and_those_that_lose_rows(
    made: Growing, store: FolderKeyedStore, tmp_path: Path, key: Any, monkeypatch: Any
) -> None:
    refresh = Publisher(made, store, tmp_path, mode=Mode.STATE, primary_key=key)
    for number in range(20):
        made.add([(A, f"c{number}", number), (A, f"d{number}", number)])
    assert opened_by(made, monkeypatch, refresh) == [*range(20)]
    for rows, opened in (
        ([(A, "new", 1)], [20]),
        ([(C, "c3", 3), (D, "c3", 4), (R, "d17", 17)], [3, 17, 21]),
        ([(R, "c3", 4)], [21, 22]),
    ):
        made.add(rows)
        assert opened_by(made, monkeypatch, refresh) == opened


@pytest.mark.parametrize("key", [("city",), None], ids=str)
def test_damage_to_any_file_is_noticed_and_mended(
    made: Growing, kept: FolderKeyedStore, key: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for block in A2:
        made.add(block)
    standing_of(made, key, kept)
    names = [info.key for info in kept.list("live")]
    assert len(names) == 3
    for at, spoil in enumerate([*names, *names]):
        if at < len(names):
            kept.put(spoil, [b"\0" * 64])
        else:
            kept.delete([info.key for info in kept.list("live") if "state.json" not in info.key])
        made.add([(R, "d", 7), (A, "d", 7)])
        caplog.clear()
        assert standing_of(made, key, kept) == standing_of(made, key, None)
        assert standing_of(made, key, kept) == standing_of(made, key, None)
    assert "worked out anew" in caplog.text


@pytest.mark.parametrize("key", [("city",), None], ids=str)
def test_a_run_that_is_killed_at_any_write_leaves_what_the_next_one_can_use(
    made: Growing, kept: FolderKeyedStore, key: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(live_index, "SEGMENT_ROWS", 2)
    for block in [*A2, [(A, "b", 2500), (R, "c", None)]]:
        made.add(block)
        for kills in range(20):
            try:
                found = standing_of(made, key, Watched(kept, dies_at=kills))
                break
            except Killed:
                continue
        assert kills >= 2
        assert found == standing_of(made, key, None)
        assert standing_of(made, key, kept) == found


def test_of_two_runs_at_once_one_is_refused(made: Growing, kept: FolderKeyedStore) -> None:
    made.add(A2[0])

    class Overtaken(Watched):
        def swap(self, key: str, content: bytes, *, expected: str | None) -> str:
            standing_of(made, ("city",), kept)
            return self._store.swap(key, content, expected=expected)

    with pytest.raises(SwapLost):
        standing_of(made, ("city",), Overtaken(kept))
    assert standing_of(made, ("city",), kept) == ([0, 1, 2], 0)


@pytest.mark.parametrize("key", [("city",), None], ids=str)
def test_another_history_another_key_and_another_schema_begin_anew(
    made: Growing, kept: FolderKeyedStore, key: Any
) -> None:
    for block in A2:
        made.add(block)
        standing_of(made, key, kept)
    assert standing_of(made, ("pop",), kept) == standing_of(made, ("pop",), None)
    assert standing_of(made, key, kept) == standing_of(made, key, None)
    extend(made)
    assert standing_of(made, key, kept) == standing_of(made, key, None)
    old = made.blocks[-1].hash
    made.blocks, made.offset = made.blocks[:3], 3
    made.blocks.append(linked(made.blocks[-1], infos("another history")[0]))
    made.dataset.commit([made.blocks[-1]], expected=old, force=True)
    assert standing_of(made, key, kept) == ([0, 1, 2], 0)
    made.add([(R, "b", 2000)])
    assert standing_of(made, key, kept) == ([0, 2], 0)


def test_small_runs_are_merged_and_dead_rows_forgotten(
    made: Growing, kept: FolderKeyedStore
) -> None:
    for number in range(40):
        made.add([(A, "same", number)])
        assert standing_of(made, ("city",), kept) == ([number], 0)
    sizes = [info.size for info in kept.list("live")]
    assert len(sizes) <= 8
    forget_live(kept)
    assert list(kept.list("live")) == []
