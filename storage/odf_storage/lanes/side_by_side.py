"""Hashes several byte streams side by side, in one thread or in several.

`hashlib` is used as long as few bytes are expected. Once many are expected, code is compiled in
some tenths of a second, if this processor can hash side by side at all (`kernel`).
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
"""Bytes of a stream that are collected before they are absorbed, to save calls."""
WORTH_PREPARING_BYTES = 128 << 20
"""Number of bytes from which compiling the code first takes less time than hashing without it."""
THREADS = min(4, os.cpu_count() or 1)
"""Limit of useful threads, because few files have more than four long columns."""

Stream = Iterable[Any]
"""Pieces of bytes (anything with a buffer). A piece must not change until the next is requested."""


class _Kernels:
    """The compiled code, if there is any: `single` for one stream, `wide` for one per lane.

    Threads that compile it concurrently get equal code.
    """

    def __init__(self) -> None:
        self.expected = 0
        self.is_asked = False
        self.single: Kernel | None = None
        self.wide: Kernel | None = None


_kernels = _Kernels()


def prepare() -> int:
    """Hash streams side by side from now on. Return the number of lanes; 1 if not possible."""
    if not _kernels.is_asked:
        _kernels.single, _kernels.wide = compiled()
        _kernels.is_asked = True
    return lanes()


def expect(size: int) -> None:
    """Announce bytes to hash; call `prepare` once the sum of all calls makes it worthwhile."""
    _kernels.expected += size
    if _kernels.expected >= WORTH_PREPARING_BYTES:
        prepare()


def lanes() -> int:
    """Return how many streams one thread hashes at once."""
    return 1 if _kernels.wide is None else _kernels.wide.lanes


def hash_all(streams: Iterable[Stream], *, threads: int = 1) -> list[bytes]:
    """Return the SHA3-256 of each stream, in the order of the streams.

    Streams are started in that order, so the longest should be first. One thread reads each stream.
    An error in one stream ends all: streams that are generators are closed, and it is raised.
    """
    width = lanes()  # read once, because another thread may compile code meanwhile
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
    """Hash streams until none is left, in one of the threads."""
    try:
        if width == 1:
            for state, stream in _popped(left):
                with closing(_pieces_of(stream)) as pieces:
                    for content in pieces:
                        state.update(content)
        else:
            _side_by_side(_popped(left), width)
    except BaseException:
        left.clear()  # the other threads need not start streams whose digests are not returned
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
"""Words of a state, an Arrow buffer, the offset in it, and the number of blocks to absorb."""


class _Open:
    """A hash state with accessible words, for code that works on several states at once."""

    __slots__ = ("_collected", "_words")

    def __init__(self) -> None:
        self._collected = bytearray()
        """The last bytes of the input, not absorbed yet."""
        self._words: Any = None
        """None until the first block is absorbed."""

    def digest(self) -> bytes:
        """Return the digest. Can be called only once, because it finishes the state."""
        if self._words is None:
            return hashlib.sha3_256(self._collected).digest()
        end = pa.py_buffer(padded(self._collected))
        _mix([_Lane((self._words, end, 0, end.size // BLOCK_BYTES))], end.size // BLOCK_BYTES)
        return digest_of(self._words)

    def feed(self, content: Any) -> Iterator[_Piece]:
        """Yield whole blocks of the collected bytes and `content`; collect the rest."""
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
    """One stream in progress, and the position of its next blocks."""

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
        """Return whether there are blocks to absorb, from this stream or the next that has some."""
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
        """Close a stream that was not read to its end."""
        self._pieces.close()


def _mix(busy: Sequence[_Lane], blocks: int) -> None:
    """Absorb `blocks` blocks of each lane. Lanes without a stream work on discarded states."""
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
