"""SHA3-256 of several streams side by side, in one thread: what verification spends its time on.

Whoever has streams to hash writes each as feeds, a generator of (state, bytes), and hands them all
to `side_by_side`. It asks for the bytes of as many streams as the processor hashes at once.

`hashlib` serves as long as there is little to hash. Once much is expected, code is made for this
processor in some tenths of a second, if it can go side by side at all (`protocol.kernel`), and new
states are such that do. A digest is the same either way.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeVar

import pyarrow as pa

from .keccak import BLOCK_BYTES, WORDS, digest_of, padded
from .kernel import Kernel, compiled

HELD_BYTES = 1 << 15
"""Bytes of a stream that are collected before they are mixed in: each time costs some calls."""
WORTH_PREPARING_BYTES = 128 << 20
"""So many bytes are hashed sooner once code was made for it than without."""

T = TypeVar("T")
State = Any
"""What `hashlib.sha3_256()` gives, or its like."""
Feeds = Generator[tuple[State, Any], None, None]
"""States, and the bytes each is fed, which stay as they are until the next are asked for."""
Run = Callable[[Iterable[Feeds]], None]
"""Feeds streams that know nothing of each other to their end, in any order, in any thread."""
Steps = Generator[Sequence[Feeds], None, T]
"""A piece of work that now and then hands out streams, and goes on when all of them have ended."""


class _Made:
    """The code that was made, if any was: for one stream, and for as many as go side by side.

    Threads that make it at the same time make the same.
    """

    def __init__(self) -> None:
        self.expected = 0
        self.is_asked = False
        self.alone: Kernel | None = None
        self.together: Kernel | None = None


_made = _Made()


def prepare() -> int:
    """Have states that go side by side from now on; how many do. 1: there is no code for it."""
    if not _made.is_asked:
        _made.alone, _made.together = compiled()
        _made.is_asked = True
    return lanes()


def expect(size: int) -> None:
    """So many bytes will be hashed: prepare, if it is worth it for all that was expected so far."""
    _made.expected += size
    if _made.expected >= WORTH_PREPARING_BYTES:
        prepare()


def lanes() -> int:
    """How many streams are hashed at once."""
    return 1 if _made.together is None else _made.together.lanes


def sha3_256(start: bytes = b"") -> State:
    """A state that has been fed the start of a stream."""
    return hashlib.sha3_256(start) if _made.together is None else _Open(start)


def side_by_side(streams: Iterable[Feeds | None]) -> None:
    """Feed streams to their end, as many at a time as are hashed at once, in this thread.

    A None among them says that there is no other at the moment: ask again later. What goes wrong
    in one ends all.
    """
    coming, width = iter(streams), lanes()
    if width == 1:
        _one_by_one(coming)
        return
    open_ones = [_Lane() for _ in range(width)]
    try:
        while busy := [lane for lane in open_ones if lane.is_fed(coming)]:
            _mix(busy, min(lane.blocks for lane in busy))
    finally:
        for lane in open_ones:
            lane.close()


def _one_by_one(streams: Iterator[Feeds | None]) -> None:
    for feeds in streams:
        if feeds is not None:
            for state, content in feeds:
                state.update(content)


def finish(steps: Steps[T], run: Run = side_by_side) -> T:
    """Do a piece of work to its end: what it comes to."""
    try:
        streams = next(steps)
        while True:
            try:
                run(streams)
            except BaseException as failure:
                streams = steps.throw(failure)
            else:
                streams = next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def beside(stream: Feeds, steps: Steps[T]) -> Steps[T]:
    """A piece of work, and one stream more along with its first."""
    waiting = [stream]
    failure: BaseException | None = None
    with closing(steps):
        while True:
            try:
                streams = next(steps) if failure is None else steps.throw(failure)
            except StopIteration as end:
                if waiting:
                    yield waiting
                return end.value  # type: ignore[no-any-return]
            try:
                yield [*waiting, *streams]
                failure = None
            except Exception as error:
                failure = error
            waiting = []


def does(act: Callable[[], object]) -> Feeds:
    """Something to be done beside streams that are fed."""
    act()
    yield from ()


# --- side by side ---------------------------------------------------------------------------

_Piece = tuple[Any, Any, int, int]
"""Words of a state, an Arrow buffer, where in it to begin, how many blocks to mix in."""


class _Open:
    """A state whose words lie open, for code that mixes several at once."""

    __slots__ = ("_held", "_words")

    def __init__(self, start: bytes | bytearray = b"") -> None:
        self._held = bytearray(start)
        """The end of what it was fed, not mixed in so far."""
        self._words: Any = None
        """None: nothing was mixed in so far."""

    def copy(self) -> _Open:
        made = _Open(self._held)
        if self._words is not None:
            made._words = type(self._words).from_buffer_copy(self._words)
        return made

    def update(self, content: Any) -> None:
        side_by_side([(pair for pair in [(self, content)])])

    def digest(self) -> bytes:
        if self._words is None:
            return hashlib.sha3_256(self._held).digest()
        words = type(self._words).from_buffer_copy(self._words)
        end = pa.py_buffer(padded(self._held))
        _mix([_Lane((words, end, 0, end.size // BLOCK_BYTES))], end.size // BLOCK_BYTES)
        return digest_of(words)

    def take(self, content: Any) -> Iterator[_Piece]:
        """What was held and this, in whole blocks; the rest is held."""
        given = pa.py_buffer(content)
        missing = -len(self._held) % BLOCK_BYTES
        if len(self._held) + given.size < HELD_BYTES or given.size < missing:
            self._held += memoryview(given)
            return
        if self._words is None:
            self._words = (ctypes.c_uint64 * WORDS)()
        first = pa.py_buffer(bytes(self._held) + given.slice(0, missing).to_pybytes())
        blocks, rest = divmod(given.size - missing, BLOCK_BYTES)
        self._held = bytearray(given.slice(given.size - rest))
        for piece in ((first, 0, first.size // BLOCK_BYTES), (given, missing, blocks)):
            if piece[-1]:
                yield self._words, *piece


def _pieces(feeds: Feeds) -> Generator[_Piece, None, None]:
    with closing(feeds):
        for state, content in feeds:
            if isinstance(state, _Open):
                yield from state.take(content)
            else:
                state.update(content)


class _Lane:
    """One stream on its way: which blocks of it come next."""

    __slots__ = ("_kept", "_pieces", "blocks", "content", "words")

    def __init__(self, piece: _Piece | None = None) -> None:
        self._pieces = _pieces(does(int))
        self.blocks = 0
        if piece is not None:
            self._begin(piece)

    def _begin(self, piece: _Piece) -> None:
        words, content, start, self.blocks = self._kept = piece
        self.words, self.content = ctypes.addressof(words), content.address + start

    def is_fed(self, coming: Iterator[Feeds | None]) -> bool:
        """Whether there are blocks to mix in, of this stream or the first that has some."""
        while not self.blocks:
            piece = next(self._pieces, None)
            if piece is not None:
                self._begin(piece)
                continue
            feeds = next(coming, None)
            if feeds is None:
                return False
            self._pieces = _pieces(feeds)
        return True

    def pass_by(self, blocks: int) -> None:
        self.blocks -= blocks
        self.content += blocks * BLOCK_BYTES

    def close(self) -> None:
        """Let go of what was not read to its end."""
        self._pieces.close()


def _mix(busy: Sequence[_Lane], blocks: int) -> None:
    """Mix so many blocks of each lane in. Lanes without a stream go along, for nothing."""
    made = _made.alone if len(busy) == 1 else _made.together
    if made is None:
        raise RuntimeError("a state lies open, but no code was made that mixes it")
    idle = made.lanes - len(busy)
    words = [lane.words for lane in busy]
    content = [lane.content for lane in busy]
    nowhere = [(ctypes.c_uint64 * WORDS)() for _ in range(idle)]
    addresses = ctypes.c_void_p * made.lanes
    made.absorb(
        addresses(*words, *map(ctypes.addressof, nowhere)),
        addresses(*content, *content[:1] * idle),
        blocks,
    )
    for lane in busy:
        lane.pass_by(blocks)
