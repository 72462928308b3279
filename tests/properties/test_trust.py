"""Whatever is read of notes, proofs, policies and tiles is written as it was, or refused."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.trust_targets import fuzz_trust, trust_seeds

from odf_protocol.trust.merkle import (
    GrowingTree,
    consistency_path,
    inclusion_path,
    is_continued,
    is_included,
    leaf_hash,
    nodes_of,
    tree_root,
)

edits = st.lists(st.tuples(st.integers(0, 4096), st.integers(0, 255)), max_size=4)
SEEDS = st.sampled_from([seed.decode() for seed in trust_seeds()])
LEAVES = [leaf_hash(n.to_bytes(2, "big")) for n in range(600)]
NODES = nodes_of(LEAVES)


@settings(max_examples=200, deadline=2000)
@given(SEEDS, edits)
def test_damaged_files_are_refused_or_read_as_they_are(seed: str, changes):
    raw = bytearray(seed.encode())
    for place, value in changes:
        raw[place % len(raw)] = value
    fuzz_trust(bytes(raw))


@settings(max_examples=100, deadline=2000)
@given(st.data())
def test_no_single_bit_of_a_proof_may_differ(data):
    size = data.draw(st.integers(2, len(LEAVES)))
    index = data.draw(st.integers(0, size - 1))
    old = data.draw(st.integers(1, size - 1))
    root, old_root = tree_root(size, NODES), tree_root(old, NODES)
    inside, between = inclusion_path(index, size, NODES), consistency_path(old, size, NODES)
    assert is_included(index, size, LEAVES[index], inside, root)
    assert is_continued(old, size, between, old_root=old_root, root=root)
    place, bit = data.draw(st.integers(0, 10_000)), 1 << data.draw(st.integers(0, 7))
    flipped = _flipped(inside, place, bit)
    assert not is_included(index, size, LEAVES[index], flipped, root)
    flipped = _flipped(between, place, bit)
    assert not is_continued(old, size, flipped, old_root=old_root, root=root)


def _flipped(path: list[bytes], place: int, bit: int) -> list[bytes]:
    changed = [bytearray(each) for each in path]
    changed[place % len(path)][place % 32] ^= bit
    return [bytes(each) for each in changed]


def test_a_tree_that_is_appended_to_has_the_root_of_all_its_leaves():
    tree = GrowingTree()
    for size, leaf in enumerate(LEAVES):
        assert tree.root == tree_root(size, NODES)
        tree = GrowingTree(tree.size, list(tree.edge))  # what is kept is enough to go on
        tree.append(leaf)
