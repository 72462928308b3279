"""Threads that do pieces of work whose streams are hashed side by side, whosever they are.

A piece hands out its streams and waits for them; a thread that has room for more takes what any
piece has handed out, and begins the next piece when nothing is left of those. So the processor's
lanes are full however many streams a piece has, and few pieces are in hand at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from typing import Generic, TypeVar

from protocol.sha3 import Feeds, Steps, side_by_side

T = TypeVar("T")
Begin = Callable[[], Steps[T]]


def each(pieces: Sequence[Begin[T]], *, threads: int, ahead: int) -> Iterator[T]:
    """What each piece comes to, in their order; what one raises is raised in its place.

    At most `ahead` pieces are begun before the first is asked for. What is left when nobody asks
    any more is closed.
    """
    crew = _Crew(pieces, ahead)
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="hashing") as pool:
            try:
                for _ in range(threads):
                    pool.submit(crew.work)
                for place in range(len(pieces)):
                    yield crew.result(place)
            finally:
                crew.stop()
    finally:
        crew.close()


class _Piece(Generic[T]):
    """A piece of work that was begun."""

    def __init__(self, place: int, steps: Steps[T]) -> None:
        self.place = place
        self.steps = steps
        self.left = 0
        """Streams it waits for."""
        self.failure: BaseException | None = None
        """What the first of them to fail raised."""


class _Worker:
    """One thread of a crew."""

    open_streams = 0


class _Crew(Generic[T]):
    """What the threads share."""

    def __init__(self, pieces: Sequence[Begin[T]], ahead: int) -> None:
        self._pieces = pieces
        self._ahead = ahead
        self._changed = Condition()
        """Guards all below, and tells of every change to it."""
        self._streams: deque[tuple[_Piece[T], Feeds]] = deque()
        self._running: set[_Piece[T]] = set()
        self._ended: dict[int, tuple[T | None, BaseException | None]] = {}
        self._begun = 0
        self._asked = 0
        self._stopped = False
        self._broken: BaseException | None = None
        """What ended a thread, so that pieces are left that nobody goes on with."""

    def work(self) -> None:
        """What each thread does."""
        try:
            side_by_side(self._coming(_Worker()))
        except BaseException as failure:  # of no stream, but in hashing them: memory, perhaps
            with self._changed:
                self._broken = failure
                self._stopped = True
                self._changed.notify_all()

    def result(self, place: int) -> T:
        """What a piece came to, once it has."""
        with self._changed:
            self._asked = place
            self._changed.notify_all()
            self._changed.wait_for(lambda: place in self._ended or self._broken is not None)
            result, failure = self._ended.pop(place, (None, self._broken))
        if failure is not None:
            raise failure
        return result  # type: ignore[return-value]

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def close(self) -> None:
        """Close what was not done to its end; no thread works any more."""
        for piece in self._running:
            piece.steps.close()

    def _coming(self, worker: _Worker) -> Iterator[Feeds | None]:
        """Streams for one thread, as it has room for them."""
        while True:
            piece = stream = None
            with self._changed:
                self._changed.wait_for(lambda: worker.open_streams or self._may_go_on())
                if self._stopped or self._is_done():
                    return
                if self._streams:
                    stream = self._streams.popleft()
                elif self._may_begin():
                    piece = _Piece(self._begun, self._pieces[self._begun]())
                    self._running.add(piece)
                    self._begun += 1
            if piece is not None:
                self._go_on(piece)
            elif stream is None:
                yield None
            else:
                worker.open_streams += 1
                yield self._watched(*stream, worker)

    def _watched(self, piece: _Piece[T], feeds: Feeds, worker: _Worker) -> Feeds:
        """A stream to its end, then its piece, if it was the last."""
        failure: BaseException | None = None
        try:
            for pair in feeds:
                if self._stopped:
                    return
                yield pair
        except GeneratorExit:
            raise
        except BaseException as error:
            failure = error
        finally:
            feeds.close()
            worker.open_streams -= 1
        with self._changed:
            piece.failure = piece.failure or failure
            piece.left -= 1
            is_last = not piece.left
        if is_last:
            self._go_on(piece)

    def _go_on(self, piece: _Piece[T]) -> None:
        """Ask a piece for its next streams, or for what it came to."""
        streams: Sequence[Feeds] = ()
        while not streams:
            failure, piece.failure = piece.failure, None
            try:
                streams = next(piece.steps) if failure is None else piece.steps.throw(failure)
            except StopIteration as end:
                self._end(piece, end.value, None)
                return
            except BaseException as error:
                self._end(piece, None, error)
                return
        with self._changed:
            piece.left = len(streams)
            self._streams.extend((piece, feeds) for feeds in streams)
            self._changed.notify_all()

    def _end(self, piece: _Piece[T], result: T | None, failure: BaseException | None) -> None:
        with self._changed:
            self._running.remove(piece)
            self._ended[piece.place] = result, failure
            self._changed.notify_all()

    def _may_begin(self) -> bool:
        return self._begun < min(len(self._pieces), self._asked + self._ahead)

    def _is_done(self) -> bool:
        return self._begun == len(self._pieces) and not self._running

    def _may_go_on(self) -> bool:
        return bool(self._streams) or self._may_begin() or self._stopped or self._is_done()
