"""Streams that are hashed side by side have the hashes they have alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import lay_open

from protocol import sha3
from protocol.sha3 import Feeds, Steps, beside, does, finish, sha3_256, side_by_side

PIECES = st.lists(st.lists(st.integers(0, 700), max_size=6), max_size=9)


@pytest.fixture(scope="module", params=[None, 2, 4, 8])
def lanes(request: pytest.FixtureRequest) -> Iterator[int | None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        if request.param is not None:
            lay_open(monkeypatch, request.param)
        yield request.param


def content(stream: int, size: int) -> bytes:
    return bytes((stream * 31 + at * 7) % 251 for at in range(size))


def fed(state: object, contents: list[bytes]) -> Feeds:
    for each in contents:
        yield state, each


@given(PIECES)
@settings(max_examples=25)
def test_any_pieces_of_any_number_of_streams(lanes: int | None, pieces: list[list[int]]) -> None:
    contents = [[content(at, size) for size in sizes] for at, sizes in enumerate(pieces)]
    states = [sha3_256(b"begun") for _ in contents]
    side_by_side(fed(state, each) for state, each in zip(states, contents, strict=True))
    wanted = [hashlib.sha3_256(b"begun" + b"".join(each)).digest() for each in contents]
    assert [state.digest() for state in states] == wanted


def test_bytes_are_used_up_before_the_next_are_asked_for(lanes: int | None) -> None:
    def reusing(state: object, letter: int) -> Feeds:
        room = bytearray(1000)
        for number in range(5):
            room[:] = bytes([letter + number]) * 1000
            yield state, room

    states = [sha3_256() for _ in range(6)]
    side_by_side(reusing(state, at) for at, state in enumerate(states))
    for letter, state in enumerate(states):
        whole = b"".join(bytes([letter + number]) * 1000 for number in range(5))
        assert state.digest() == hashlib.sha3_256(whole).digest()


def test_a_copy_goes_its_own_way_and_a_digest_changes_nothing(lanes: int | None) -> None:
    state = sha3_256(b"a")
    state.update(content(1, 1000))
    copy = state.copy()
    assert copy.digest() == state.digest() == state.digest()
    copy.update(b"more")
    state.update(b"else" * 100)
    assert copy.digest() == hashlib.sha3_256(b"a" + content(1, 1000) + b"more").digest()
    assert state.digest() == hashlib.sha3_256(b"a" + content(1, 1000) + b"else" * 100).digest()


def test_a_stream_may_feed_several_states_and_streams_may_be_missing_for_a_while(
    lanes: int | None,
) -> None:
    first, second = sha3_256(), sha3_256()

    def both() -> Feeds:
        for _ in range(20):
            yield first, b"1" * 500
            yield second, b"2" * 300

    side_by_side(iter([both(), None, None, does(list)]))
    assert first.digest() == hashlib.sha3_256(b"1" * 10_000).digest()
    assert second.digest() == hashlib.sha3_256(b"2" * 6_000).digest()


def test_a_failure_ends_all_and_closes_what_was_open(lanes: int | None) -> None:
    closed = []

    def endless(number: int) -> Feeds:
        state = sha3_256()
        try:
            while True:
                yield state, bytes(1000)
        finally:
            closed.append(number)

    def failing() -> Feeds:
        yield sha3_256(), bytes(10_000)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        side_by_side([failing(), *map(endless, range(lanes - 1 if lanes else 0))])
    assert sorted(closed) == list(range(lanes - 1 if lanes else 0))


def test_without_being_asked_states_are_those_of_hashlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sha3, "_made", sha3._Made())
    assert (sha3.lanes(), type(sha3_256())) == (1, type(hashlib.sha3_256()))
    monkeypatch.setattr(sha3, "compiled", lambda: (None, None))
    assert (sha3.prepare(), type(sha3_256())) == (1, type(hashlib.sha3_256()))


def test_code_is_made_once_enough_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(sha3, "_made", sha3._Made())
    monkeypatch.setattr(sha3, "compiled", lambda: asked.append(1) or (None, None))
    sha3.expect(sha3.WORTH_PREPARING_BYTES - 1)
    assert asked == []
    sha3.expect(1)
    sha3.expect(sha3.WORTH_PREPARING_BYTES)
    assert asked == [1]


def test_code_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(sha3, "_made", sha3._Made())
    monkeypatch.setattr(sha3, "compiled", lambda: asked.append(1) or (None, None))
    sha3.prepare()
    sha3.prepare()
    assert asked == [1]


# --- steps ----------------------------------------------------------------------------------


def two_steps(seen: list[str]) -> Steps[str]:
    yield [does(lambda: seen.append("first"))]
    yield [does(lambda: seen.append("second"))]
    return "done"


def fails() -> None:
    raise ZeroDivisionError


def recovering() -> Steps[str]:
    try:
        yield [does(fails)]
    except ZeroDivisionError:
        return "recovered"
    return "never"


def test_a_piece_of_work_goes_on_when_its_streams_have_ended() -> None:
    seen: list[str] = []
    assert finish(two_steps(seen)) == "done"
    assert seen == ["first", "second"]


def test_a_piece_of_work_is_told_what_went_wrong_in_its_streams() -> None:
    assert finish(recovering()) == "recovered"


def test_one_stream_more_goes_along_with_the_first_of_a_piece_of_work() -> None:
    seen: list[str] = []
    extra = does(lambda: seen.append("extra"))
    assert finish(beside(extra, two_steps(seen))) == "done"
    assert seen == ["extra", "first", "second"]


def test_it_goes_along_also_with_work_that_has_no_streams_or_whose_streams_fail() -> None:
    def nothing() -> Steps[str]:
        yield from ()
        return "nothing"

    seen: list[str] = []
    extra = [does(lambda: seen.append("extra")) for _ in range(2)]
    assert finish(beside(extra[0], nothing())) == "nothing"
    assert finish(beside(extra[1], recovering())) == "recovered"
    assert seen == ["extra", "extra"]
