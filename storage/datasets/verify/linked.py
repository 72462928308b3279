"""Are the objects that rows link to here, with the bytes they are named by? Each is read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import BinaryIO

from odf_node.protocol.errors import NotFound
from odf_node.protocol.multihash import SHA3_256, Multihash
from odf_node.protocol.slice_file import UnreadableSlice

from ...lanes import hash_all
from ...stores.objects.layout import object_path
from ...stores.ports.values import ObjectKind
from ..contents.linked import readable_links
from ..dataset.local_files import read_anywhere
from ..job_payloads.verify_report import KIND_OF_OBJECT, Problem
from .bytes import Passing
from .data import DataBlock
from .source import ChainSource

MISSING, DAMAGED = "LinkedObjectMissing", "LinkedObjectDamaged"
AT_ONCE = 4
"""Objects that each thread has open."""
ANY_SIZE = 1 << 62
"""No block tells how large one linked object is."""
Linked = Sequence[tuple[Multihash, DataBlock]]
Verdict = tuple[int, Problem | None]
"""Bytes that were read, and what is wrong."""


def check_linked(
    source: ChainSource, columns: Sequence[str], blocks: Sequence[DataBlock], *, threads: int
) -> Iterator[Verdict]:
    """Look at what the slices of the blocks link to."""
    found, most = list(_linked(source, columns, blocks).items()), threads * AT_ONCE
    for at in range(0, len(found), most):
        with ExitStack() as opened:
            yield from _check(source, found[at : at + most], threads, opened)


def _check(
    source: ChainSource, found: Linked, threads: int, opened: ExitStack
) -> Iterator[Verdict]:
    streams: dict[Multihash, BinaryIO] = {}
    for linked, _ in found:
        with suppress(NotFound):
            streams[linked] = opened.enter_context(source.open_object(ObjectKind.DATA, linked))
    passing = {linked: Passing() for linked in streams}
    pieces = [
        passing[linked].read(stream, ANY_SIZE, _dropped) for linked, stream in streams.items()
    ]
    digests = dict(zip(streams, hash_all(pieces, threads=threads), strict=True))
    for linked, block in found:
        if linked not in digests:
            message = "rows link to it, and it is not there"
            yield 0, _problem(block, linked, MISSING, message)
            continue
        size, actual = passing[linked].size, Multihash(SHA3_256, digests[linked])
        if actual == linked:
            yield size, None
        else:
            message = f"rows link to it, and its bytes hash to {actual}"
            yield size, _problem(block, linked, DAMAGED, message)


def _dropped(_: bytes) -> None:
    """Bytes that nobody needs again."""


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


def _problem(block: DataBlock, linked: Multihash, reason: str, message: str) -> Problem:
    return Problem(
        kind=KIND_OF_OBJECT[ObjectKind.DATA],
        reason=reason,
        message=message,
        block=str(block.block),
        sequence_number=block.sequence_number,
        path=str(object_path(ObjectKind.DATA, linked)),
    )
