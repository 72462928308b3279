"""Hashes several streams of bytes side by side, in one thread or in several.

`hashlib` serves as long as there is little to hash. Once much is expected, code is made for this
processor in some tenths of a second, if it can go side by side at all (`kernel`).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pyarrow as pa

from .keccak import BLOCK_BYTES, WORDS, digest_of, padded
from .kernel import Kernel, compiled

COLLECTED_BYTES = 1 << 15
"""Bytes of a stream that are collected before they are mixed in: each time costs some calls."""
WORTH_PREPARING_BYTES = 128 << 20
"""So many bytes are hashed sooner once code was made for it than without."""
THREADS = min(4, os.cpu_count() or 1)
"""Threads worth having: few files have more than four long columns."""

Stream = Iterable[Any]
"""Pieces of bytes (anything with a buffer), each of which stays as it is until the next is asked
for."""


class _Kernels:
    """The compiled code, if there is any: `single` for one stream, `wide` for one per lane.

    Threads that compile it at the same time get the same.
    """

    def __init__(self) -> None:
        self.expected = 0
        self.is_asked = False
        self.single: Kernel | None = None
        self.wide: Kernel | None = None


_kernels = _Kernels()


def prepare() -> int:
    """Have streams go side by side from now on; how many do. 1: there is no code for it."""
    if not _kernels.is_asked:
        _kernels.single, _kernels.wide = compiled()
        _kernels.is_asked = True
    return lanes()


def expect(size: int) -> None:
    """So many bytes will be hashed: prepare, if it is worth it for all that was expected so far."""
    _kernels.expected += size
    if _kernels.expected >= WORTH_PREPARING_BYTES:
        prepare()


def lanes() -> int:
    """How many streams one thread hashes at once."""
    return 1 if _kernels.wide is None else _kernels.wide.lanes


def hash_all(streams: Iterable[Stream], *, threads: int = 1) -> list[bytes]:
    """SHA3-256 of each stream, in the order of the streams.

    Streams are begun in that order, so the longest should come first. Each is read by one thread.
    An error in one ends all: those that are generators are closed, and the error is raised.
    """
    width = lanes()  # another thread may have code made meanwhile
    jobs = [(hashlib.sha3_256() if width == 1 else _Open(), stream) for stream in streams]
    left = deque(jobs)
    helpers = min(threads, len(jobs)) - 1
    if helpers < 1:
        _work(left, width)
    else:
        with ThreadPoolExecutor(helpers, thread_name_prefix="hashing") as pool:
            helping = [pool.submit(_work, left, width) for _ in range(helpers)]
            _work(left, width)
            for helper in helping:
                helper.result()
    return [state.digest() for state, _ in jobs]


def _work(left: deque[tuple[Any, Stream]], width: int) -> None:
    """Hash streams until none is left, as one of the threads."""
    try:
        if width == 1:
            for state, stream in _popped(left):
                with closing(_pieces_of(stream)) as pieces:
                    for content in pieces:
                        state.update(content)
        else:
            _side_by_side(_popped(left), width)
    except BaseException:
        left.clear()  # the other threads need not begin what nobody will see
        raise


def _popped(left: deque[tuple[Any, Stream]]) -> Iterator[tuple[Any, Stream]]:
    while True:
        try:
            yield left.popleft()
        except IndexError:
            return


def _pieces_of(stream: Stream) -> Generator[Any, None, None]:
    try:
        yield from stream
    finally:
        if isinstance(stream, Generator):
            stream.close()


# --- side by side ---------------------------------------------------------------------------

_Piece = tuple[Any, Any, int, int]
"""Words of a state, an Arrow buffer, where in it to begin, how many blocks to mix in."""


class _Open:
    """A state whose words lie open, for code that mixes several at once."""

    __slots__ = ("_collected", "_words")

    def __init__(self) -> None:
        self._collected = bytearray()
        """The end of what it was fed, not mixed in so far."""
        self._words: Any = None
        """None: nothing was mixed in so far."""

    def digest(self) -> bytes:
        """Once: the state is at its end then."""
        if self._words is None:
            return hashlib.sha3_256(self._collected).digest()
        end = pa.py_buffer(padded(self._collected))
        _mix([_Lane((self._words, end, 0, end.size // BLOCK_BYTES))], end.size // BLOCK_BYTES)
        return digest_of(self._words)

    def feed(self, content: Any) -> Iterator[_Piece]:
        """What was collected and this, in whole blocks; the rest is collected."""
        given = pa.py_buffer(content)
        missing = -len(self._collected) % BLOCK_BYTES
        if len(self._collected) + given.size < COLLECTED_BYTES or given.size < missing:
            self._collected += memoryview(given)
            return
        if self._words is None:
            self._words = (ctypes.c_uint64 * WORDS)()
        first = pa.py_buffer(bytes(self._collected) + given.slice(0, missing).to_pybytes())
        blocks, rest = divmod(given.size - missing, BLOCK_BYTES)
        self._collected = bytearray(given.slice(given.size - rest))
        for piece in ((first, 0, first.size // BLOCK_BYTES), (given, missing, blocks)):
            if piece[-1]:
                yield self._words, *piece


def _blocks(state: _Open, stream: Stream) -> Generator[_Piece, None, None]:
    with closing(_pieces_of(stream)) as pieces:
        for content in pieces:
            yield from state.feed(content)


def _side_by_side(jobs: Iterator[tuple[_Open, Stream]], width: int) -> None:
    """Hash as many streams at a time as there are lanes, in this thread."""
    open_ones = [_Lane() for _ in range(width)]
    try:
        while busy := [lane for lane in open_ones if lane.is_fed(jobs)]:
            _mix(busy, min(lane.blocks for lane in busy))
    finally:
        for lane in open_ones:
            lane.close()


class _Lane:
    """One stream on its way: which blocks of it come next."""

    __slots__ = ("_kept", "_pieces", "blocks", "content", "words")

    def __init__(self, piece: _Piece | None = None) -> None:
        self._pieces = _blocks(_Open(), ())
        self.blocks = 0
        if piece is not None:
            self._begin(piece)

    def _begin(self, piece: _Piece) -> None:
        words, content, start, self.blocks = self._kept = piece
        self.words, self.content = ctypes.addressof(words), content.address + start

    def is_fed(self, jobs: Iterator[tuple[_Open, Stream]]) -> bool:
        """Whether there are blocks to mix in, of this stream or the first that has some."""
        while not self.blocks:
            piece = next(self._pieces, None)
            if piece is not None:
                self._begin(piece)
                continue
            job = next(jobs, None)
            if job is None:
                return False
            self._pieces = _blocks(*job)
        return True

    def pass_by(self, blocks: int) -> None:
        self.blocks -= blocks
        self.content += blocks * BLOCK_BYTES

    def close(self) -> None:
        """Let go of what was not read to its end."""
        self._pieces.close()


def _mix(busy: Sequence[_Lane], blocks: int) -> None:
    """Mix so many blocks of each lane in. Lanes without a stream go along, for nothing."""
    kernel = _kernels.single if len(busy) == 1 else _kernels.wide
    if kernel is None:
        raise RuntimeError("a state lies open, but no code was made that mixes it")
    idle = kernel.lanes - len(busy)
    words = [lane.words for lane in busy]
    content = [lane.content for lane in busy]
    nowhere = [(ctypes.c_uint64 * WORDS)() for _ in range(idle)]
    addresses = ctypes.c_void_p * kernel.lanes
    kernel.absorb(
        addresses(*words, *map(ctypes.addressof, nowhere)),
        addresses(*content, *content[:1] * idle),
        blocks,
    )
    for lane in busy:
        lane.pass_by(blocks)
