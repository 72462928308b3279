"""Fetch objects in parallel: each is hashed while it is written, and none is fetched twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import BinaryIO, TypeVar

from odf_protocol.errors import NotFound
from odf_protocol.multihash import HashMismatch

from .folder import chunks_of
from .gateways import with_retries
from .http import TransferFailed
from .limits import LIMITS, ClientLimits
from .progress import UNWATCHED, Progress
from .receive import NeededObject, ObjectSizeMismatch, SourceObjectMissing
from .target import Target
from .walk import mismatch

LOOK_SECONDS = 0.2

T = TypeVar("T")
Opener = Callable[[NeededObject], BinaryIO]


class Stopped(TransferFailed):
    """This transfer was given up because another one of the exchange failed."""


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
        """Fetch all objects; the first failure stops the others and is raised.

        Return the objects whose URLs had expired.

        Raises:
            SourceObjectMissing, ObjectSizeMismatch, HashMismatch, TransferFailed
        """
        fetched = run_all([partial(self._one, one) for one in needed], parallel, self._stop)
        return [one for one, done in zip(needed, fetched, strict=True) if not done]

    def _one(self, needed: NeededObject) -> bool:
        try:
            with_retries(lambda: self._attempt(needed), limits=self._limits)
        except UrlExpired:
            return False
        self._progress.object_done()
        return True

    def _attempt(self, needed: NeededObject) -> None:
        try:
            with self._open(needed) as stream:
                self._target.put(needed.kind, needed.hash, self._checked(stream, needed))
        except HashMismatch as error:
            raise mismatch(error, needed.name, object=needed.name) from error
        except NotFound as error:
            raise SourceObjectMissing(needed) from error

    def _checked(self, stream: BinaryIO, needed: NeededObject) -> Iterator[bytes]:
        received = 0
        for chunk in chunks_of(stream):
            if self._stop.is_set():
                raise Stopped("given up because another transfer failed")
            received += len(chunk)
            if received > needed.size:
                raise ObjectSizeMismatch(needed, needed.size, at_least=True)
            self._progress.object_bytes(len(chunk))
            yield chunk
        if received != needed.size:
            raise ObjectSizeMismatch(needed, received)


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
