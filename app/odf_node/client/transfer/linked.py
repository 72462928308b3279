"""Transfer linked objects together with the rows that link to them.

The protocols know only slices and checkpoints. So a push offers linked objects as additional data,
which any node accepts, and a pull requests them at `data/…` afterwards. If the source does not have
a linked object, the target does not get it, as without this module.

Source: RFC-017; transfer protocol, section 17.

The port to which a pull writes: a folder, a bucket, or the stores of a node that mirrors.

Fetch objects in parallel: each is hashed while it is written, and none is fetched twice.

Read parts of an object at a URL by HTTP ranges.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from typing import BinaryIO, Protocol, TypeVar

from odf_protocol.chain.schema_evolution import all_link_columns
from odf_protocol.errors import NotFound
from odf_protocol.metadata.events import AddData, ExecuteTransform, HashedBlock
from odf_protocol.multihash import HashMismatch, Multihash
from odf_protocol.references import linked_objects
from odf_storage.stores.objects.files import check
from odf_storage.stores.ports.values import ObjectKind

from ..nodes.http import (
    TransferFailed,
    bearer,
    origin,
    raise_for_object,
    read_bounded,
    refuse_challenged,
    refuse_overloaded,
    unreachable,
    with_retries,
)
from ..nodes.later import httpx
from ..nodes.limits import LIMITS, ClientLimits, too_much
from ..nodes.repositories import Repository
from .folder import FolderRepository, chunks_of
from .receive import (
    UNWATCHED,
    ChainReader,
    NeededObject,
    Progress,
    SourceObjectMissing,
    mismatch,
    object_size_mismatch,
)

SmallObject = tuple[ObjectKind, Multihash, bytes]


class Target(Repository, Protocol):
    """One dataset that can be read and extended. Readers see no change before `move_head`."""

    def holds(self, kind: ObjectKind, object_hash: Multihash, size: int) -> bool:
        """Return whether the object is here and undamaged.

        Raises:
            ObjectSizeMismatch: a target that hashes what it has found another size.
        """

    def put(self, kind: ObjectKind, object_hash: Multihash, chunks: Iterable[bytes]) -> object:
        """Store an object and hash it meanwhile. Raises `HashMismatch`."""

    def put_all(self, objects: Sequence[SmallObject]) -> None:
        """As `put` of each, with one sync for all of them if the target has syncs."""

    def check(
        self, new: Sequence[HashedBlock], *, old: Multihash | None, force: bool = False
    ) -> None:
        """Check that `new` may follow `old`; with `force` a whole chain may replace it.

        Raises:
            SeedOverwrite, ChainRuleBroken
        """

    def move_head(self, *, expected: Multihash | None, new: list[HashedBlock]) -> None:
        """Write the blocks, then the head; call it under `locked()`. Raises `Conflict`."""

    def locked(self) -> AbstractContextManager[None]:
        """Lock the dataset against other pulls."""


LOOK_SECONDS = 0.2
SMALL_BYTES = 64 * 1024
"""Objects of at most this size are kept in memory until they are stored together."""
TOGETHER = 100
"""Limit of small objects that are stored together."""

T = TypeVar("T")
Opener = Callable[[NeededObject], BinaryIO]


class UrlExpired(TransferFailed):
    """The URL of an object has expired."""


class Fetcher:
    """Fetches objects from a source into the target of a pull."""

    def __init__(
        self,
        target: Target,
        open_source: Opener,
        *,
        limits: ClientLimits = LIMITS,
        progress: Progress = UNWATCHED,
    ) -> None:
        self._target, self._open = target, open_source
        self._limits, self._progress = limits, progress
        self._stop = threading.Event()

    def fetch(self, needed: Sequence[NeededObject], *, parallel: int) -> list[NeededObject]:
        """Fetch all objects; the first failure stops the others and is raised. What arrived before
        it is stored.

        Return the objects whose URLs had expired.

        Raises:
            SourceObjectMissing, ObjectSizeMismatch, HashMismatch, TransferFailed
        """
        tasks = [partial(self._group, group) for group in _groups(needed, parallel)]
        return [one for expired in run_all(tasks, parallel, self._stop) for one in expired]

    def _group(self, needed: Sequence[NeededObject]) -> list[NeededObject]:
        """Fetch some objects one after the other. Return those whose URLs had expired."""
        expired: list[NeededObject] = []
        arrived: list[SmallObject] = []
        try:
            for one in needed:
                try:
                    with_retries(partial(self._attempt, one, arrived), limits=self._limits)
                except UrlExpired:
                    expired.append(one)
                else:
                    self._progress.object_done()
        finally:
            if arrived:
                self._target.put_all(arrived)
        return expired

    def _attempt(self, needed: NeededObject, arrived: list[SmallObject]) -> None:
        """Fetch one object, and store it if it is not small enough to wait for others."""
        try:
            with self._open(needed) as stream:
                chunks = self._checked(stream, needed)
                if needed.size > SMALL_BYTES:
                    self._target.put(needed.kind, needed.hash, chunks)
                else:
                    content = b"".join(chunks)
                    check(needed.hash, Multihash.of(content))
                    arrived.append((needed.kind, needed.hash, content))
        except HashMismatch as error:
            raise mismatch(error, needed.name, object=needed.name) from error
        except NotFound as error:
            raise SourceObjectMissing(needed) from error

    def _checked(self, stream: BinaryIO, needed: NeededObject) -> Iterator[bytes]:
        received = 0
        for chunk in chunks_of(stream):
            if self._stop.is_set():
                raise TransferFailed("Stopped", "given up because another transfer failed")
            received += len(chunk)
            if received > needed.size:
                raise object_size_mismatch(needed, needed.size, at_least=True)
            self._progress.object_bytes(len(chunk))
            yield chunk
        if received != needed.size:
            raise object_size_mismatch(needed, received)


def _groups(needed: Sequence[NeededObject], parallel: int) -> Iterator[list[NeededObject]]:
    """Yield small objects in groups, others alone, so that all threads have some."""
    most = max(1, min(TOGETHER, len(needed) // max(1, parallel)))
    group: list[NeededObject] = []
    for one in needed:
        if one.size > SMALL_BYTES:
            yield [one]
            continue
        group.append(one)
        if len(group) == most:
            yield group
            group = []
    if group:
        yield group


def run_all(
    tasks: Sequence[Callable[[], T]],
    parallel: int,
    stop: threading.Event,
    *,
    meanwhile: Callable[[int], None] | None = None,
) -> list[T]:
    """Run tasks in threads; on the first failure set `stop`, drop the rest and raise it.

    `meanwhile(done)` is called in the calling thread every `LOOK_SECONDS` until all are done.
    """
    with ThreadPoolExecutor(max_workers=max(1, min(parallel, len(tasks)))) as pool:
        futures: list[Future[T]] = [pool.submit(task) for task in tasks]
        pending = set(futures)
        try:
            while pending:
                pause = None if meanwhile is None else LOOK_SECONDS
                done, pending = wait(pending, timeout=pause, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                if meanwhile is not None and pending:
                    meanwhile(len(futures) - len(pending))
        except BaseException:
            stop.set()
            for future in pending:
                future.cancel()
            raise
    return [future.result() for future in futures]


def missing_in(
    target: Target, needed: Sequence[NeededObject], *, parallel: int
) -> list[NeededObject]:
    """Return the objects that the target does not have undamaged. Raises `ObjectSizeMismatch`."""
    present_flags = run_all(
        [partial(target.holds, one.kind, one.hash, one.size) for one in needed],
        parallel,
        threading.Event(),
    )
    return [one for one, present in zip(needed, present_flags, strict=True) if not present]


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
                raise too_much(what, limits.object_bytes)
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
    from odf_protocol.columns.slice_file import UnreadableSlice
    from odf_storage.datasets.contents.linked import readable_links
    from odf_storage.datasets.dataset.info import read_anywhere

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


def read_range(
    http: httpx.Client,
    url: str,
    start: int,
    end: int,
    *,
    token: str | None = None,
    limits: ClientLimits = LIMITS,
) -> bytes:
    """Return bytes `start` to `end` (exclusive) of the object at `url`, which must have as many.

    Raises:
        NotTheRange, Unreachable, Overloaded, and the same errors as `raise_for_object`.
    """
    if start >= end:
        return b""
    once = partial(_read, http, url, start, end, token, limits)
    return with_retries(once, limits=limits)


def _read(
    http: httpx.Client, url: str, start: int, end: int, token: str | None, limits: ClientLimits
) -> bytes:
    headers = {"range": f"bytes={start}-{end - 1}", **bearer(token)}
    try:
        with http.stream("GET", url, headers=headers) as response:
            status = response.status_code
            refuse_overloaded(response.headers, status, url, "a part of a file")
            refuse_challenged(response.headers, status)
            raise_for_object(response, url, "file")
            said = response.headers.get("content-range", "")
            if status != 206 or not said.startswith(f"bytes {start}-{end - 1}/"):
                raise TransferFailed(
                    "NotTheRange",
                    f"{origin(url)} does not send parts of files",
                    status=status,
                    range=said[:100],
                )
            body = read_bounded(response, end - start, "a part of a file", limits=limits)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise unreachable(url, error) from error
    if len(body) != end - start:
        raise TransferFailed(
            "NotTheRange", f"{origin(url)} sent {len(body)} of {end - start} bytes"
        )
    return body
