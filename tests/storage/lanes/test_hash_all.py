"""Streams hashed side by side have the hashes they have alone, in any number of threads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import lay_open

from odf_storage.lanes import hash_all, side_by_side

PIECES = st.lists(st.lists(st.integers(0, 700), max_size=6), max_size=9)


@pytest.fixture(scope="module", params=[None, 2, 4, 8])
def lanes(request: pytest.FixtureRequest) -> Iterator[int | None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        if request.param is not None:
            lay_open(monkeypatch, request.param)
        yield request.param


def content(stream: int, size: int) -> bytes:
    return bytes((stream * 31 + at * 7) % 251 for at in range(size))


@pytest.mark.parametrize("threads", [1, 2, 5])
@given(pieces=PIECES)
@settings(max_examples=15, deadline=None)
def test_any_pieces_of_any_number_of_streams(
    lanes: int | None, threads: int, pieces: list[list[int]]
) -> None:
    contents = [[content(at, size) for size in sizes] for at, sizes in enumerate(pieces)]
    wanted = [hashlib.sha3_256(b"".join(each)).digest() for each in contents]
    assert hash_all(contents, threads=threads) == wanted


@pytest.mark.usefixtures("lanes")
def test_bytes_are_used_up_before_the_next_are_asked_for() -> None:
    def reusing(letter: int) -> Iterator[bytearray]:
        room = bytearray(1000)
        for number in range(5):
            room[:] = bytes([letter + number]) * 1000
            yield room

    for letter, digest in enumerate(hash_all(map(reusing, range(6)))):
        whole = b"".join(bytes([letter + number]) * 1000 for number in range(5))
        assert digest == hashlib.sha3_256(whole).digest()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failure_ends_all_and_closes_what_was_open(lanes: int | None, threads: int) -> None:
    closed: list[int] = []
    begun = Barrier(threads, timeout=90)

    def endless(number: int) -> Iterator[bytes]:
        try:
            if number < threads - 1:
                begun.wait()
            for _ in range(1000):
                yield bytes(1000)
        finally:
            closed.append(number)

    def failing() -> Iterator[bytes]:
        yield bytes(10_000)
        begun.wait()
        raise ZeroDivisionError

    others = list(map(endless, range(threads - 1 + (lanes - 1 if lanes else 0))))
    with pytest.raises(ZeroDivisionError):
        hash_all([*others[: threads - 1], failing(), *others[threads - 1 :]], threads=threads)
    assert len(closed) == len(set(closed))
    assert all(stream.gi_frame is None or stream.gi_frame.f_lasti < 0 for stream in others)


@pytest.mark.usefixtures("lanes")
def test_no_streams_have_no_digests_and_an_empty_one_has_that_of_nothing() -> None:
    assert hash_all([]) == []
    assert hash_all([[], iter(())]) == [hashlib.sha3_256().digest()] * 2


def test_streams_are_hashed_by_all_threads() -> None:
    meeting = Barrier(2, timeout=90)

    def waiting() -> Iterator[bytes]:
        meeting.wait()
        yield b"both are here"

    assert (
        hash_all([waiting(), waiting()], threads=2)
        == [hashlib.sha3_256(b"both are here").digest()] * 2
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_nobody_waits_for_ever_when_hashing_itself_fails(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    lay_open(monkeypatch)
    monkeypatch.setattr(side_by_side, "_mix", no_memory)
    with pytest.raises(MemoryError):
        hash_all([[bytes(1000)]] * 5, threads=threads)


def test_code_that_is_made_meanwhile_is_for_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def making() -> Iterator[bytes]:
        yield b"a" * 1000
        lay_open(monkeypatch)
        yield b"b" * 1000

    whole = hashlib.sha3_256(b"a" * 1000 + b"b" * 1000).digest()
    monkeypatch.setattr(side_by_side, "_kernels", side_by_side._Kernels())
    assert hash_all([making(), [b"a" * 1000, b"b" * 1000]]) == [whole] * 2


def test_without_being_asked_hashlib_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "_kernels", side_by_side._Kernels())
    assert side_by_side.lanes() == 1
    monkeypatch.setattr(side_by_side, "compiled", lambda: (None, None))
    assert side_by_side.prepare() == 1


def test_code_is_made_once_enough_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(side_by_side, "_kernels", side_by_side._Kernels())
    monkeypatch.setattr(side_by_side, "compiled", lambda: asked.append(1) or (None, None))
    side_by_side.expect(side_by_side.WORTH_PREPARING_BYTES - 1)
    assert asked == []
    side_by_side.expect(1)
    side_by_side.expect(side_by_side.WORTH_PREPARING_BYTES)
    assert asked == [1]


def test_code_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(side_by_side, "_kernels", side_by_side._Kernels())
    monkeypatch.setattr(side_by_side, "compiled", lambda: asked.append(1) or (None, None))
    side_by_side.prepare()
    side_by_side.prepare()
    assert asked == [1]
