"""Verify that the objects that rows link to exist and match their hashes.

There are two stages: read the links of the slices, then hash each linked object once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import BinaryIO

from odf_protocol.errors import Damaged, NotFound
from odf_protocol.multihash import SHA3_256, Multihash

from ...lanes import hash_all
from ...stores.index.named_objects import NamedObject, named_objects
from ...stores.objects.layout import object_path
from ...stores.ports.values import ObjectKind
from ..contents.linked import readable_links
from ..dataset.info import read_anywhere
from ..job_payloads.verify_job import KIND_OF_OBJECT, VerifyProblem
from .data import DataBlock
from .objects import Passing
from .source import ObjectSource
from .stages import Runner, Split

MISSING, DAMAGED = "LinkedObjectMissing", "LinkedObjectDamaged"
AT_ONCE = 4
"""Number of objects that are open at once in one split."""
ANY_SIZE = 1 << 62
"""No limit: no block declares the size of a linked object."""
Hashed = tuple[int, bytes | None]
"""Size of an object in bytes, and its digest; None if the object is missing."""
Verdict = tuple[int, VerifyProblem | None]
"""Number of bytes that were read, and the problem, if any."""


def check_linked(
    runner: Runner, columns: Sequence[str], blocks: Sequence[DataBlock]
) -> Iterator[Verdict]:
    """Check the objects that the slices of the blocks link to, each once."""
    found = _linked(runner, columns, blocks)
    names = list(found)
    splits = (
        Split(group, tuple(NamedObject(ObjectKind.DATA, each, 0) for each in group))
        for group in (names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE))
    )
    hashed = (each for group in runner.run(hash_linked, splits) for each in group)
    for name, (size, digest) in zip(names, hashed, strict=True):
        yield size, _judged(found[name], name, digest)


def _linked(
    runner: Runner, columns: Sequence[str], blocks: Sequence[DataBlock]
) -> dict[Multihash, DataBlock]:
    """Return each linked object with one of the blocks whose rows link to it."""
    with_slice = [block for block in blocks if columns and block.event.new_data is not None]
    splits = (Split(block, tuple(named_objects(block.event))[:1]) for block in with_slice)
    links = runner.run(partial(links_of, tuple(columns)), splits)
    found: dict[Multihash, DataBlock] = {}
    for block, names in zip(with_slice, links, strict=True):
        found.update(dict.fromkeys(names, block))
    return found


def links_of(columns: Sequence[str], source: ObjectSource, block: DataBlock) -> list[Multihash]:
    """The first stage: return the objects that the slice of a block links to, each once. A slice
    that cannot be read gives none; the check of objects has reported it."""
    data = block.event.new_data
    found: dict[Multihash, None] = {}
    if data is None:
        return []
    with (
        suppress(NotFound, Damaged),
        source.open_object(ObjectKind.DATA, data.physical_hash) as stream,
        read_anywhere(stream) as file,
    ):
        found.update(dict.fromkeys(readable_links(file, columns)))
    return list(found)


def hash_linked(source: ObjectSource, names: Sequence[Multihash]) -> list[Hashed]:
    """The second stage: hash the linked objects."""
    with ExitStack() as opened:
        streams: dict[Multihash, BinaryIO] = {}
        for name in names:
            with suppress(NotFound):
                streams[name] = opened.enter_context(source.open_object(ObjectKind.DATA, name))
        passing = {name: Passing() for name in streams}
        pieces = [passing[name].read(streams[name], ANY_SIZE, _dropped) for name in streams]
        digests = dict(zip(streams, hash_all(pieces), strict=True))
        return [
            (passing[name].size, digests[name]) if name in digests else (0, None) for name in names
        ]


def _dropped(_: bytes) -> None:
    """Ignore bytes that are not needed again."""


def _judged(block: DataBlock, linked: Multihash, digest: bytes | None) -> VerifyProblem | None:
    if digest is None:
        return _problem(block, linked, MISSING, "rows link to it, and it is not there")
    actual = Multihash(SHA3_256, digest)
    if actual == linked:
        return None
    message = f"rows link to it, and its bytes hash to {actual}"
    return _problem(block, linked, DAMAGED, message)


def _problem(block: DataBlock, linked: Multihash, reason: str, message: str) -> VerifyProblem:
    return VerifyProblem(
        kind=KIND_OF_OBJECT[ObjectKind.DATA],
        reason=reason,
        message=message,
        block=str(block.block),
        sequence_number=block.sequence_number,
        path=str(object_path(ObjectKind.DATA, linked)),
    )
