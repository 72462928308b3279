"""Trees of hashes as in RFC 6962: roots, and proofs that a leaf or a smaller tree is in a tree.

leaf        SHA-256(0x00 || data)
node        SHA-256(0x01 || left || right), split at the largest power of two below the size
empty tree  SHA-256("")
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..errors import BadInput

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256().digest()
MAX_PATH = 63
Nodes = Callable[[int, int], bytes]
"""The hash of the complete subtree of 2**level leaves that is number `index` from the left."""


def _no_proof(why: str) -> BadInput:
    return BadInput("NoSuchProof", why)


def leaf_hash(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def nodes_of(leaves: Sequence[bytes]) -> Nodes:
    """Return the nodes of a tree whose leaf hashes are at hand. Each is computed once."""
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        pairs = zip(below[::2], below[1::2], strict=False)
        levels.append([node_hash(left, right) for left, right in pairs])
    return lambda level, index: levels[level][index]


@dataclass
class GrowingTree:
    """A tree of which only the roots of its complete subtrees are kept, the largest first: enough
    to append to it, and to know its root."""

    size: int = 0
    edge: list[bytes] = field(default_factory=list)

    def append(self, leaf: bytes) -> None:
        """Add the hash of a leaf."""
        full = self.size
        while full & 1:
            leaf = node_hash(self.edge.pop(), leaf)
            full >>= 1
        self.edge.append(leaf)
        self.size += 1

    @property
    def root(self) -> bytes:
        if not self.edge:
            return EMPTY_ROOT
        found = self.edge[-1]
        for left in reversed(self.edge[:-1]):
            found = node_hash(left, found)
        return found


def tree_root(size: int, nodes: Nodes) -> bytes:
    """Return the root of the tree of the first `size` leaves."""
    return _range_root(0, size, nodes) if size else EMPTY_ROOT


def inclusion_path(index: int, size: int, nodes: Nodes) -> list[bytes]:
    """Return the hashes that lead from leaf `index` to the root of `size` leaves."""
    if not 0 <= index < size:
        raise _no_proof(f"a tree of {size} leaves has no leaf {index}")
    path, low, high = list[bytes](), 0, size
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(_range_root(middle, high, nodes))
            high = middle
        else:
            path.append(_range_root(low, middle, nodes))
            low = middle
    return path[::-1]


def consistency_path(old: int, size: int, nodes: Nodes) -> list[bytes]:
    """Return the hashes that show that the tree of `old` leaves begins the tree of `size`."""
    if not 0 <= old <= size:
        raise _no_proof(f"a tree of {size} leaves does not continue one of {old}")
    if old in (0, size):
        return []
    path, low, high = list[bytes](), 0, size
    while old != high:
        middle = low + _split(high - low)
        if old <= middle:
            path.append(_range_root(middle, high, nodes))
            high = middle
        else:
            path.append(_range_root(low, middle, nodes))
            low = middle
    if low:  # otherwise the verifier has this hash: it is the old root
        path.append(_range_root(low, high, nodes))
    return path[::-1]


def is_included(index: int, size: int, leaf: bytes, path: Sequence[bytes], root: bytes) -> bool:
    """Return whether the path shows that the leaf with this hash is number `index` below `root`
    (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    place, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if place & 1 or place == last:
            found = node_hash(sibling, found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and found == root


def is_continued(
    old: int, size: int, path: Sequence[bytes], *, old_root: bytes, root: bytes
) -> bool:
    """Return whether the path shows that the tree of `old` leaves begins the tree of `size`
    (RFC 9162, 2.1.4.2)."""
    if not 0 <= old <= size:
        return False
    if old in (0, size):
        return not path and old_root == (root if old == size else EMPTY_ROOT)
    hashes = [old_root, *path] if old & (old - 1) == 0 else list(path)
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    if not hashes:
        return False
    old_found = found = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old_found, found = node_hash(sibling, old_found), node_hash(sibling, found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and (old_found, found) == (old_root, root)


def _range_root(low: int, high: int, nodes: Nodes) -> bytes:
    """Return the root of leaves `low` to `high`; `low` is a multiple of the power above."""
    level = (high - low).bit_length() - 1
    if high - low == 1 << level:
        return nodes(level, low >> level)
    middle = low + (1 << level)
    return node_hash(_range_root(low, middle, nodes), _range_root(middle, high, nodes))


def _split(size: int) -> int:
    """Return the largest power of two below `size`, which is at least 2."""
    return 1 << (size - 1).bit_length() - 1
