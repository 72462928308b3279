"""Trees, tiles and records of a log: known answers, and proofs of everything within small trees."""

from __future__ import annotations

import pytest
from refusals import refusing

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash
from odf_protocol.trust.heads import (
    GapRecord,
    HeadKind,
    HeadRecord,
    MapRecord,
    logged_name,
    map_of,
    map_record,
    read_record,
)
from odf_protocol.trust.merkle import (
    EMPTY_ROOT,
    HASH_BYTES,
    consistency_path,
    inclusion_path,
    is_continued,
    is_included,
    leaf_hash,
    nodes_of,
    tree_root,
)
from odf_protocol.trust.notes import encoded
from odf_protocol.trust.tiles import Tile, bundle, tile_nodes, tile_of, unbundled

NOW = Instant.parse("2026-11-28T03:00:00Z")
BLOCK = Multihash.of(b"block")
LEAVES = [leaf_hash(bytes([n])) for n in range(70)]
NODES = nodes_of(LEAVES)


def test_roots_are_those_of_the_standard():
    assert encoded(EMPTY_ROOT) == "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    assert encoded(leaf_hash(b"a")) == "Aippeebat6pa5MPl5F9+l3ESp+Y1k4INvsHsc4ok+Tw="
    three = nodes_of([leaf_hash(each) for each in (b"a", b"b", b"c")])
    assert encoded(tree_root(3, three)) == "NmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE="
    assert tree_root(0, three) == EMPTY_ROOT


def test_every_leaf_of_every_small_tree_is_proven_and_no_other():
    for size in range(1, 40):
        root = tree_root(size, NODES)
        for index in range(size):
            path = inclusion_path(index, size, NODES)
            assert is_included(index, size, LEAVES[index], path, root)
            for bad in (path[:-1], [*path, root], [*path[:-1], bytes(HASH_BYTES)]):
                assert bad == path or not is_included(index, size, LEAVES[index], bad, root)
            assert not is_included(index, size, LEAVES[index + 1], path, root)
            other = (index + 1) % (size + 1)
            assert not is_included(other, size, LEAVES[index], path, root)


def test_every_small_tree_is_proven_to_begin_every_larger_one_and_no_other():
    for size in range(35):
        root = tree_root(size, NODES)
        for old in range(size + 1):
            old_root = tree_root(old, NODES)
            path = consistency_path(old, size, NODES)
            assert is_continued(old, size, path, old_root=old_root, root=root)
            other = leaf_hash(b"other")
            assert not is_continued(old, size, path, old_root=other, root=root)
            if old:  # every tree continues the empty one
                assert not is_continued(old, size, path, old_root=old_root, root=other)
            for bad in (path[:-1], [*path, other]):
                assert bad == path or not is_continued(old, size, bad, old_root=old_root, root=root)


def test_trees_do_not_continue_larger_ones():
    for make in (lambda: consistency_path(5, 4, NODES), lambda: inclusion_path(4, 4, NODES)):
        with refusing("NoSuchProof"):
            make()
    assert not is_continued(5, 4, [], old_root=EMPTY_ROOT, root=EMPTY_ROOT)
    assert not is_included(-1, 4, LEAVES[0], [], EMPTY_ROOT)


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 0), "0/000"),
        (Tile(0, 1234067), "0/x001/x234/067"),
        (Tile(1, 999, 70), "1/999.p/70"),
        (Tile(None, 1000, 255), "entries/x001/000.p/255"),
    ],
)
def test_tiles_have_the_names_of_the_standard(tile: Tile, path: str):
    assert tile.path == path
    assert Tile.parse(path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "",
        "0",
        "0/0",
        "0/000.p/0",
        "0/000.p/256",
        "0/000.p/257",
        "0/x000/001",
        "0/001/001",
        "8/000",
        "00/000",
        "entries/000/",
        "0/" + "x001/" * 20 + "001",
        "0/٠٠٠",
    ],
)
def test_other_names_are_no_tiles(path: str):
    with refusing("MalformedTile"):
        Tile.parse(path)


def test_a_log_is_proven_from_its_tiles_and_each_is_fetched_once():
    leaves = [leaf_hash(n.to_bytes(4, "big")) for n in range(70_000)]
    whole, fetched = nodes_of(leaves), list[Tile]()

    def fetch(tile: Tile) -> bytes:
        fetched.append(tile)
        first = tile.number * 256
        return b"".join(whole(8 * tile.level, first + n) for n in range(tile.width))

    nodes = tile_nodes(fetch, len(leaves))
    assert tree_root(70_000, nodes) == tree_root(70_000, whole)
    assert consistency_path(66_001, 70_000, nodes) == consistency_path(66_001, 70_000, whole)
    assert inclusion_path(3, 70_000, nodes) == inclusion_path(3, 70_000, whole)
    assert len(fetched) == len(set(fetched)) < 8
    assert tile_of(0, 273, 70_000).path == "0/273.p/112"


def test_a_tile_of_another_length_is_refused():
    with refusing("MalformedTile"):
        tree_root(3, tile_nodes(lambda tile: bytes(64), 3))


def test_files_of_entries_are_read_as_they_are_written():
    entries = [b"", b"a" * 65535, b"bc"]
    assert unbundled(bundle(entries)) == entries
    for bad in (b"\0", b"\0\1", bundle(entries)[:-1], bundle([b""] * 257)):
        with refusing("MalformedTile"):
            unbundled(bad)


RECORDS = (
    HeadRecord(str(DatasetId(bytes(32))), HeadKind.COMMIT, 4, BLOCK, NOW),
    MapRecord(3, bytes(32), NOW),
    GapRecord(300, bytes(32), NOW),
)


@pytest.mark.parametrize("record", RECORDS)
def test_records_are_read_as_they_are_written(record):
    assert read_record(record.entry) == record


def test_a_record_of_a_head_is_six_lines():
    text = RECORDS[0].entry.decode()
    name = DatasetId(bytes(32))
    assert text == f"odf-head/v1\n{name}\ncommit\n4\n{BLOCK}\n2026-11-28T03:00:00Z\n"


@pytest.mark.parametrize(
    "change",
    [
        (b"odf-head/v1", b"odf-head/v2"),
        (b"\n4\n", b"\n04\n"),
        (b"\n4\n", b"\n-4\n"),
        (b"commit", b"join"),
        (b"03:00:00Z", b"03:00:00.000Z"),
        (b"03:00:00Z\n", b"03:00:00Z"),
        (b"03:00:00Z\n", b"03:00:00Z\nmore\n"),
        (b"did:odf", b"\xff"),
        (b"did:odf", b"a" * 2000),
    ],
)
def test_other_records_are_refused(change):
    with refusing("MalformedHeadRecord"):
        read_record(RECORDS[0].entry.replace(*change))


def test_a_private_dataset_is_known_only_to_those_who_have_its_salt():
    dataset = DatasetId(b"\x05" * 32)
    assert logged_name(dataset, None) == str(dataset)
    salted = logged_name(dataset, bytes(16))
    assert salted.startswith("salted:")
    assert str(dataset) not in salted
    assert salted != logged_name(dataset, b"\x01" * 16)


def test_a_map_proves_each_record_within_it():
    entries = [RECORDS[0].entry, RECORDS[1].entry, RECORDS[2].entry]
    record = map_record(entries, NOW)
    leaves, nodes = map_of(entries)
    for index, leaf in enumerate(leaves):
        path = inclusion_path(index, 3, nodes)
        assert is_included(index, record.count, leaf, path, record.root)
    assert map_record([], NOW).root == EMPTY_ROOT
