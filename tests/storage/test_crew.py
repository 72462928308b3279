"""Pieces of work end in their order, whoever hashes their streams, and none is left behind."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from threading import Barrier, Event
from typing import Any

import pytest
from lanes import lay_open

from protocol import sha3
from protocol.sha3 import Feeds, Steps, does, sha3_256
from storage.crew import each


@pytest.fixture(scope="module", params=["alone", "at once"])
def _states(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        if request.param == "at once":
            lay_open(monkeypatch)
        yield


def fed(state: Any, number: int) -> Feeds:
    for size in (100, 1000, 0, 3000):
        yield state, bytes([number]) * size


def hashing(number: int, streams: int) -> Steps[set[bytes]]:
    """A piece with so many streams, twice."""
    states = [sha3_256() for _ in range(streams)]
    yield [fed(state, number) for state in states]
    yield [fed(state, number) for state in states]
    return {state.digest() for state in states}


@pytest.mark.usefixtures("_states")
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("ahead", [1, 3, 100])
def test_pieces_come_in_their_order_with_their_hashes(threads: int, ahead: int) -> None:
    pieces = [partial(hashing, number, number % 7) for number in range(40)]
    wanted = [
        {hashlib.sha3_256(bytes([number]) * 8200).digest()} if number % 7 else set()
        for number in range(40)
    ]
    assert list(each(pieces, threads=threads, ahead=ahead)) == wanted


def test_no_pieces_are_nothing() -> None:
    assert list(each([], threads=2, ahead=1)) == []


def test_no_more_are_begun_than_may_be_ahead() -> None:
    begun: list[int] = []

    def piece(number: int) -> Steps[int]:
        begun.append(number)
        yield []
        return number

    results = each([partial(piece, number) for number in range(9)], threads=2, ahead=3)
    for number in range(9):
        assert next(results) == number
        assert len(begun) <= number + 3


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failure_of_a_stream_is_told_to_its_piece_and_to_no_other(threads: int) -> None:
    def piece(number: int) -> Steps[str]:
        try:
            yield [does(lambda: 1 // number), does(list), does(lambda: 1 // number)]
        except ZeroDivisionError:
            return "failed"
        return "fine"

    pieces = [partial(piece, number) for number in (1, 0, 1, 0)]
    found = list(each(pieces, threads=threads, ahead=4))
    assert found == ["fine", "failed", "fine", "failed"]


def test_what_a_piece_raises_is_raised_in_its_place_and_the_rest_is_closed() -> None:
    closed: list[int] = []
    others_have_begun = Event()

    def failing() -> Steps[int]:
        others_have_begun.wait(30)
        raise ZeroDivisionError
        yield

    def endless(number: int) -> Steps[int]:
        state = sha3_256()

        def feeds() -> Feeds:
            others_have_begun.set()
            while True:
                yield state, bytes(1000)

        try:
            yield [feeds()]
        finally:
            closed.append(number)
        return number

    results = each([failing, partial(endless, 1)], threads=2, ahead=2)
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert closed == [1]


def test_who_asks_no_more_leaves_nothing_open() -> None:
    closed: list[int] = []

    def piece(number: int) -> Steps[int]:
        try:
            yield [does(list)]
            yield [does(list)]
        finally:
            closed.append(number)
        return number

    results = each([partial(piece, number) for number in range(20)], threads=2, ahead=4)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert sorted(closed) == list(range(len(closed)))


def test_streams_of_one_piece_are_hashed_by_all_threads() -> None:
    meeting = Barrier(2, timeout=30)

    def piece() -> Steps[bool]:
        yield [does(meeting.wait), does(meeting.wait)]
        return True

    assert list(each([piece], threads=2, ahead=1)) == [True]


@pytest.mark.parametrize("threads", [1, 2])
def test_nobody_waits_for_ever_when_hashing_itself_fails(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    lay_open(monkeypatch)
    monkeypatch.setattr(sha3, "_mix", no_memory)
    pieces = [partial(hashing, number, 3) for number in range(5)]
    with pytest.raises(MemoryError):
        list(each(pieces, threads=threads, ahead=5))
