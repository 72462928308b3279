"""What a log of heads promises. Subclasses give `stores`."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from chain_maker import NOON, chain, entry, infos, linked
from refusals import refusing

from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.trust.heads import GapRecord, HeadKind, HeadRecord, MapRecord, read_record
from odf_protocol.trust.merkle import (
    EMPTY_ROOT,
    consistency_path,
    is_continued,
    leaf_hash,
    nodes_of,
    tree_root,
)
from odf_protocol.trust.tiles import Tile, unbundled
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import Visibility
from odf_storage.stores.registers.signed import head_log
from odf_storage.stores.registers.signed.head_log import LogState
from odf_storage.stores.sql.tables import unlogged_heads

ORIGIN, MAP_S = "node.example", 300.0


def named(dataset: DatasetId, visibility: Visibility) -> str:
    return str(dataset) if visibility is Visibility.PUBLIC else f"salted:{dataset.key.hex()}"


def signed(origin: str, size: int, root: bytes) -> str:
    return f"{origin} {size} {root.hex()}"


def later(seconds: float) -> Instant:
    return Instant(NOON.ns + int(seconds * NANOS))


def grown(stores: Stores, now: Instant = NOON) -> LogState | None:
    return stores.head_log.integrate(ORIGIN, named, signed, now, map_s=MAP_S)


def records(stores: Stores) -> list[HeadRecord | MapRecord | GapRecord]:
    state = stores.head_log.state()
    size = 0 if state is None else state.size
    return [read_record(stores.head_log.entry(number)) for number in range(size)]


def kinds(stores: Stores) -> list[str]:
    return [
        each.kind.value if isinstance(each, HeadRecord) else type(each).__name__
        for each in records(stores)
    ]


class HeadLogContract:
    def test_each_move_of_a_head_is_a_leaf_that_says_how_it_moved(self, stores: Stores) -> None:
        made = entry()
        blocks, _ = chain(made.id)
        stores.registry.create(made, blocks=blocks)
        first = blocks[-1]
        second = linked(first, infos("second")[0])
        other = linked(first, infos("other")[0])
        stores.refs.move(made.id, expected=first.hash, new=second.hash, blocks=[second])
        stores.refs.move(made.id, expected=second.hash, new=first.hash)
        stores.refs.move(made.id, expected=first.hash, new=second.hash)
        stores.refs.move(made.id, expected=second.hash, new=other.hash, blocks=[other])
        stores.registry.forget(made.id)
        assert grown(stores) is not None
        heads = [each for each in records(stores) if isinstance(each, HeadRecord)]
        assert [each.kind for each in heads] == [
            HeadKind.COMMIT,
            HeadKind.COMMIT,
            HeadKind.RESET,
            HeadKind.RESET,
            HeadKind.COMPACTION,
            HeadKind.DELETE,
        ]
        assert [each.block for each in heads][-2:] == [other.hash, other.hash]
        assert [each.sequence for each in heads] == [
            first.block.sequence_number,
            second.block.sequence_number,
            first.block.sequence_number,
            second.block.sequence_number,
            other.block.sequence_number,
            other.block.sequence_number,
        ]
        assert {each.name for each in heads} == {named(made.id, made.visibility)}

    def test_a_move_that_is_refused_leaves_no_leaf(self, stores: Stores) -> None:
        made = entry()
        blocks, _ = chain(made.id)
        stores.registry.create(made, blocks=blocks)
        block = linked(blocks[-1], infos("x")[0])
        with refusing("RefConflict"):
            stores.refs.move(made.id, expected=block.hash, new=block.hash, blocks=[block])
        with refusing("DatasetNotFound"):
            stores.registry.forget(entry("kamu/none").id)
        grown(stores)
        assert kinds(stores) == ["commit", "MapRecord"]

    def test_nothing_is_signed_where_nothing_moved(self, stores: Stores) -> None:
        assert grown(stores) is None
        _created(stores, 1)
        assert stores.head_log.is_behind()
        assert grown(stores) is not None
        assert not stores.head_log.is_behind()
        assert grown(stores, later(MAP_S)) is None

    def test_what_was_signed_is_the_beginning_of_all_that_is_signed_later(
        self, stores: Stores
    ) -> None:
        states, number = list[LogState](), 0
        for count in (1, 1, 3, 250, 2, 300):
            number = _created(stores, count, number)
            state = grown(stores, later(number))
            assert state is not None
            states.append(state)
        log, newest = stores.head_log, states[-1]
        entries = [log.entry(n) for n in range(newest.size)]
        assert tree_root(newest.size, nodes_of([leaf_hash(e) for e in entries])) == newest.root
        for old in states:
            path = consistency_path(old.size, newest.size, log.nodes(newest.size))
            assert is_continued(old.size, newest.size, path, old_root=old.root, root=newest.root)
            assert old.checkpoint == signed(ORIGIN, old.size, old.root)
        assert log.state() == newest

    def test_many_notes_are_taken_in_by_several_transactions(
        self, stores: Stores, monkeypatch
    ) -> None:
        monkeypatch.setattr(head_log, "MOST_AT_ONCE", 3)
        _created(stores, 7)
        sizes = []
        while (state := grown(stores)) is not None:
            sizes.append(state.size)
        assert sizes == [4, 7, 8]  # each but the first without a map

    def test_a_map_has_the_newest_record_of_each_dataset(self, stores: Stores) -> None:
        _created(stores, 3)
        grown(stores)
        made = entry("kamu/d0")
        stores.registry.forget(made.id)
        state = grown(stores, later(MAP_S - 1))
        assert state is not None
        assert kinds(stores) == ["commit"] * 3 + ["MapRecord", "delete"]
        assert state.map_leaf == 3
        _created(stores, 1, 3)
        state = grown(stores, later(MAP_S))
        assert state is not None
        assert kinds(stores)[5:] == ["commit", "MapRecord"]
        assert (state.map_leaf, state.map_at) == (6, later(MAP_S))
        mapped = stores.head_log.mapped()
        assert [dataset for dataset, _ in mapped] == sorted(
            (entry(f"kamu/d{n}").id for n in range(4)), key=lambda each: each.key
        )
        record = records(stores)[6]
        assert isinstance(record, MapRecord)
        leaves = [leaf_hash(raw) for _, raw in mapped]
        assert record.root == tree_root(len(leaves), nodes_of(leaves))
        assert record.count == 4
        assert read_record(dict(mapped)[made.id]).kind is HeadKind.DELETE

    def test_private_datasets_are_named_by_what_the_caller_makes_of_them(
        self, stores: Stores
    ) -> None:
        made = entry()
        stores.registry.create(made, blocks=chain(made.id)[0])
        stores.registry.set_visibility(made.id, Visibility.PRIVATE)
        stores.registry.forget(made.id)
        grown(stores)
        names = [each.name for each in records(stores) if isinstance(each, HeadRecord)]
        assert names == [named(made.id, made.visibility), named(made.id, Visibility.PRIVATE)]

    def test_heads_that_an_older_version_moved_are_found(self, stores: Stores) -> None:
        made, other = entry(), entry("kamu/other")
        for each in (made, other):
            stores.registry.create(each, blocks=chain(each.id)[0])
        grown(stores)
        old = stores.refs.head(made.id)
        block = linked(chain(made.id)[0][-1], infos("x")[0])
        stores.refs.move(made.id, expected=old, new=block.hash, blocks=[block])
        with stores.engine.begin() as db:
            db.execute(sa.delete(unlogged_heads))
        stores.head_log.find_missing(NOON)
        stores.head_log.find_missing(NOON)
        grown(stores)
        assert kinds(stores)[3:] == ["found"]
        found = stores.head_log.find(made.id)
        assert found is not None
        assert found.block == block.hash
        stores.head_log.find_missing(NOON)
        assert not stores.head_log.is_behind()

    def test_files_of_the_log_are_those_of_its_size(self, stores: Stores) -> None:
        _created(stores, 260)
        state = grown(stores)
        assert state is not None
        log, size = stores.head_log, state.size
        assert size == 261
        assert len(log.read(Tile(0, 0), size)) == 256 * 32
        assert len(log.read(Tile(0, 1, 5), size)) == 5 * 32
        assert len(log.read(Tile(1, 0, 1), size)) == 32
        assert log.read(Tile(0, 0, 7), size) == log.read(Tile(0, 0), size)[: 7 * 32]
        assert unbundled(log.read(Tile(None, 1, 5), size)) == [log.entry(256 + n) for n in range(5)]
        for bad in (Tile(0, 1), Tile(0, 1, 6), Tile(0, 2, 1), Tile(1, 0, 2), Tile(None, 1, 6)):
            with refusing("NoSuchTile"):
                log.read(bad, size)

    def test_an_accepted_gap_is_one_leaf(self, stores: Stores) -> None:
        _created(stores, 1)
        grown(stores)
        stores.head_log.accept_gap(900, b"\x07" * 32)
        assert grown(stores) is not None
        assert grown(stores) is None
        gap = records(stores)[-1]
        assert isinstance(gap, GapRecord)
        assert (gap.size, gap.root) == (900, b"\x07" * 32)
        state = stores.head_log.state()
        assert state is not None
        assert (state.gap_size, state.gap_leaf) == (900, 2)

    def test_a_gap_may_be_accepted_where_the_whole_log_is_lost(self, stores: Stores) -> None:
        stores.head_log.accept_gap(900, b"\x07" * 32)
        _created(stores, 1)
        grown(stores)
        assert kinds(stores) == ["GapRecord", "commit", "MapRecord"]

    def test_cosignatures_are_kept_with_the_checkpoint_they_are_of(self, stores: Stores) -> None:
        _created(stores, 1)
        first = grown(stores)
        assert first is not None
        assert stores.head_log.cosigned(first.checkpoint, "more", by="anna", at_s=7)
        assert not stores.head_log.cosigned(first.checkpoint, "late", by="anna", at_s=9)
        assert stores.head_log.cosigners() == {"anna": 9}
        state = stores.head_log.state()
        assert state is not None
        assert state.checkpoint == "more"

    def test_a_log_of_others_is_witnessed_where_it_was_left(self, stores: Stores) -> None:
        seen = list[tuple[int, bytes]]()

        def signed(size: int, root: bytes) -> tuple[int, bytes, str]:
            seen.append((size, root))
            if len(seen) > 2:
                raise ValueError
            return len(seen), bytes([len(seen)]) * 32, f"note {len(seen)}"

        assert stores.witnessed.find("anna") is None
        for _ in range(2):
            stores.witnessed.advance("anna", signed)
        with pytest.raises(ValueError, match=r"^$"):
            stores.witnessed.advance("anna", signed)
        assert seen == [(0, EMPTY_ROOT), (1, b"\x01" * 32), (2, b"\x02" * 32)]
        assert stores.witnessed.find("anna") == "note 2"
        assert not stores.witnessed.find("bert")

    def test_a_log_keeps_the_name_it_was_first_signed_under(self, stores: Stores) -> None:
        log = stores.head_log
        log.integrate("early", named, signed, NOON, map_s=MAP_S)
        _created(stores, 1)
        grown(stores)
        _created(stores, 1, 1)
        state = log.integrate("late", named, signed, NOON, map_s=MAP_S)
        assert state is not None
        assert state.origin == ORIGIN


def _created(stores: Stores, count: int, number: int = 0) -> int:
    """Create datasets of one block, and return the number of the next."""
    for each in range(number, number + count):
        made = entry(f"kamu/d{each}")
        stores.registry.create(made, blocks=chain(made.id)[0][:1])
    return number + count
