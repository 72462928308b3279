"""Bodies on their way to a thread: in order, bounded, given up when nobody sends or reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from anyio import to_thread

from app.http.bodies import PIECES_AHEAD, Body, BodyBrokeOff, BodyTooLong


class Client:
    """What a server hands on of a client: messages, then silence."""

    def __init__(self, *messages: dict[str, object]) -> None:
        self._left, self.asked = list(messages), 0

    async def receive(self) -> dict[str, object]:
        self.asked += 1
        if self._left:
            await asyncio.sleep(0)
            return self._left.pop(0)
        await asyncio.Event().wait()
        raise AssertionError


def parts(*pieces: bytes) -> list[dict[str, object]]:
    last = len(pieces) - 1
    return [
        {"type": "http.request", "body": piece, "more_body": at < last}
        for at, piece in enumerate(pieces)
    ]


def in_a_thread(body: Body, work: Callable[[Iterator[bytes]], Any]) -> Any:
    """What a thread makes of the body. Once that is known, and told, nothing goes on."""

    async def run() -> Any:
        failed = None
        try:
            made = await to_thread.run_sync(lambda: work(body.chunks()))
        except Exception as error:
            failed = error.with_traceback(None)  # which knows everything that was at work
        for _ in range(5):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        if failed is not None:
            raise failed
        return made

    return asyncio.run(run())


def test_a_thread_reads_what_arrives_in_its_order():
    pieces = [bytes([number]) * number for number in range(100)]
    body = Body(Client(*parts(*pieces)).receive, limit=10_000, idle_s=5)
    assert in_a_thread(body, b"".join) == b"".join(pieces)
    assert body.size == sum(range(100))


def test_an_empty_body_has_no_pieces():
    assert in_a_thread(Body(Client(*parts(b"")).receive, limit=0, idle_s=5), list) == []


def test_a_client_that_falls_silent_is_given_up():
    silent = Client(*parts(b"x", b"never sent")[:1])
    body = Body(silent.receive, limit=99, idle_s=0.05)
    with pytest.raises(BodyBrokeOff, match="stopped arriving"):
        in_a_thread(body, list)


def test_a_thread_may_take_longer_than_a_client_may_be_silent():
    def slowly(chunks: Iterator[bytes]) -> int:
        return sum(time.sleep(0.03) or 1 for _ in chunks)

    body = Body(Client(*parts(*[b"x"] * 20)).receive, limit=99, idle_s=0.5)
    assert in_a_thread(body, slowly) == 20


def test_a_client_that_leaves_is_told_apart_from_the_end():
    left = Client(*parts(b"one", b"two")[:1], {"type": "http.disconnect"})
    with pytest.raises(BodyBrokeOff, match="left"):
        in_a_thread(Body(left.receive, limit=99, idle_s=5), list)


def test_more_than_the_limit_is_refused_as_soon_as_it_arrives():
    client = Client(*parts(b"12345", b"6789", b"never asked for"))
    with pytest.raises(BodyTooLong):
        in_a_thread(Body(client.receive, limit=8, idle_s=5), list)
    assert client.asked == 2


def test_no_more_is_taken_than_a_few_pieces_ahead_of_the_thread():
    client = Client(*parts(*[b"x"] * 100))

    def one_only(chunks: Iterator[bytes]) -> int:
        next(chunks)
        time.sleep(0.05)
        return client.asked

    body = Body(client.receive, limit=99, idle_s=5)
    assert in_a_thread(body, one_only) <= PIECES_AHEAD + 2


def test_an_error_of_the_thread_ends_the_reading():
    client = Client(*parts(*[b"x"] * 100))

    def fail(chunks: Iterator[bytes]) -> None:
        next(chunks)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        in_a_thread(Body(client.receive, limit=99, idle_s=5), fail)
