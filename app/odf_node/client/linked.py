"""Transfer linked objects together with the rows that link to them.

The protocols know only slices and checkpoints. So a push offers linked objects as additional data,
which any node accepts, and a pull requests them at `data/…` afterwards. If the source does not have
a linked object, the target does not get it, as without this module.

Source: RFC-017; transfer protocol, section 17.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from odf_protocol.chain.link_columns import all_link_columns
from odf_protocol.errors import NotFound
from odf_protocol.linked import linked_objects
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import AddData, ExecuteTransform
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.ports.values import ObjectKind

from .folder import FolderRepository, chunks_of
from .gateways import with_retries
from .limits import LIMITS, ClientLimits, TooMuch
from .objects import run_all
from .progress import UNWATCHED, Progress
from .receive import NeededObject
from .repositories import Repository
from .target import Target
from .walk import ChainReader, mismatch


def links_to_push(
    folder: FolderRepository, reader: ChainReader, new: Sequence[HashedBlock]
) -> list[NeededObject]:
    """Return the objects in the folder to which the new rows link. `reader` reads the folder."""
    columns = all_link_columns(reader.back(new[-1].hash)) if _any_links(new) else ()
    found: dict[Multihash, NeededObject] = {}
    for name in _links(folder, new, columns):
        size = None if name in found else folder.size_of(ObjectKind.DATA, name)
        if size is not None:
            found[name] = NeededObject(ObjectKind.DATA, name, size)
    return list(found.values())


def fetch_links(
    source: Repository,
    target: Target,
    new: Sequence[HashedBlock],
    *,
    old: Multihash | None,
    limits: ClientLimits = LIMITS,
    progress: Progress = UNWATCHED,
) -> int:
    """Fetch the objects to which the new rows link, before the head moves. Return their number.

    The target must already have the slices.

    Raises:
        HashMismatch, TooMuch, TransferFailed
    """
    if not _any_links(new):
        return 0
    columns = all_link_columns(chain(new, _before(target, old, limits)))
    names = dict.fromkeys(_links(target, new, columns))
    missing = [name for name in names if not _is_in(target, name)]
    progress.expect_objects(len(missing), 0)

    def fetch(name: Multihash) -> bool:
        fetched = with_retries(
            partial(fetch_link, source, target, name, limits, progress), limits=limits
        )
        progress.object_done()
        return fetched

    tasks = [partial(fetch, name) for name in missing]
    return sum(run_all(tasks, limits.parallel_simple, threading.Event())) if tasks else 0


def linked_names(source: Repository, blocks: Sequence[HashedBlock]) -> list[Multihash]:
    """Return the links in the rows of a whole chain (oldest block first), each once."""
    if not _any_links(blocks):
        return []
    return list(dict.fromkeys(_links(source, blocks, all_link_columns(blocks))))


def fetch_link(
    source: Repository, target: Target, name: Multihash, limits: ClientLimits, progress: Progress
) -> bool:
    """Fetch one linked object. Return False if the source does not have it.

    Raises:
        HashMismatch, TooMuch, TransferFailed
    """
    what = f"linked object {name}"
    try:
        stream = source.open_object(ObjectKind.DATA, name)
    except NotFound:
        return False
    received = 0

    def counted() -> Iterator[bytes]:
        nonlocal received
        for chunk in chunks_of(stream):
            received += len(chunk)
            if limits.object_bytes is not None and received > limits.object_bytes:
                raise TooMuch(what, limits.object_bytes)
            progress.object_bytes(len(chunk))
            yield chunk

    with stream:
        try:
            target.put(ObjectKind.DATA, name, counted())
        except HashMismatch as error:
            raise mismatch(error, what, object=what) from error
    return True


def _any_links(blocks: Sequence[HashedBlock]) -> bool:
    return any(
        isinstance(block.event, AddData) and linked_objects(block.event.extra).count
        for block in blocks
    )


def _before(target: Target, old: Multihash | None, limits: ClientLimits) -> Iterator[HashedBlock]:
    if old is not None:
        yield from ChainReader(target, limits=limits).back(old)


def _links(
    source: Repository, blocks: Sequence[HashedBlock], columns: Sequence[str]
) -> Iterator[Multihash]:
    """Yield the links of all slices; skip unreadable slices, which other checks report."""
    if not columns:
        return
    # imported late: few datasets have links, and the command line must start fast
    from odf_protocol.slice_file import UnreadableSlice
    from odf_storage.datasets.contents.linked import readable_links
    from odf_storage.datasets.dataset.local_files import read_anywhere

    for block in blocks:
        event = block.event
        data = event.new_data if isinstance(event, AddData | ExecuteTransform) else None
        if data is None:
            continue
        try:
            stream = source.open_object(ObjectKind.DATA, data.physical_hash)
            with stream, read_anywhere(stream) as file:
                yield from readable_links(file, columns)
        except (UnreadableSlice, NotFound, OSError):
            continue


def _is_in(target: Target, name: Multihash) -> bool:
    try:
        target.open_object(ObjectKind.DATA, name).close()
    except NotFound:
        return False
    return True
