"""Are the objects that rows link to here, with the bytes they are named by? Each is read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from protocol.errors import NotFound
from protocol.multihash import Multihash
from protocol.sha3 import Steps
from protocol.slice_file import UnreadableSlice

from ..crew import each
from ..layout import object_path
from ..linked import readable_links
from ..local_files import read_anywhere
from ..values import ObjectKind
from .bytes import Passing
from .data import AHEAD, DataBlock
from .report import KIND_OF_OBJECT, Problem
from .source import ChainSource

MISSING, DAMAGED = "LinkedObjectMissing", "LinkedObjectDamaged"
ANY_SIZE = 1 << 62
"""No block tells how large one linked object is."""
Looked = tuple[int, Problem | None]
"""Bytes that were read, and what is wrong."""


def check_linked(
    source: ChainSource, columns: Sequence[str], blocks: Sequence[DataBlock], *, threads: int
) -> Iterator[Looked]:
    """Look at what the slices of the blocks link to."""
    found = _linked(source, columns, blocks)
    work = [partial(_checking, source, block, linked) for linked, block in found.items()]
    yield from each(work, threads=threads, ahead=threads * AHEAD)


def _linked(
    source: ChainSource, columns: Sequence[str], blocks: Sequence[DataBlock]
) -> dict[Multihash, DataBlock]:
    """Each object with one of the blocks whose rows link to it. A slice that cannot be read was
    reported as such."""
    found: dict[Multihash, DataBlock] = {}
    for block in blocks if columns else ():
        data = block.event.new_data
        if data is None:
            continue
        try:
            with (
                source.open_object(ObjectKind.DATA, data.physical_hash) as stream,
                read_anywhere(stream) as file,
            ):
                found.update(dict.fromkeys(readable_links(file, columns), block))
        except (NotFound, UnreadableSlice, OSError):
            continue
    return found


def _checking(source: ChainSource, block: DataBlock, linked: Multihash) -> Steps[Looked]:
    try:
        stream = source.open_object(ObjectKind.DATA, linked)
    except NotFound:
        return 0, _problem(block, linked, MISSING, "rows link to it, and it is not there")
    with stream:
        passing = Passing()
        yield [passing.read(stream, ANY_SIZE, lambda _: None)]
    if passing.hash == linked:
        return passing.size, None
    message = f"rows link to it, and its bytes hash to {passing.hash}"
    return passing.size, _problem(block, linked, DAMAGED, message)


def _problem(block: DataBlock, linked: Multihash, reason: str, message: str) -> Problem:
    return Problem(
        kind=KIND_OF_OBJECT[ObjectKind.DATA],
        reason=reason,
        message=message,
        block=str(block.block),
        sequence_number=block.sequence_number,
        path=str(object_path(ObjectKind.DATA, linked)),
    )
