"""Bodies on their way to a thread: in order, bounded, given up when nobody sends or reads."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from anyio import to_thread
from constants import constants
from refusals import refusing

from odf_node.service.http.bodies import FREE_BYTES, PIECES_AHEAD, Body, BodyTooLong, Paced, decoded

MIB = 1024 * 1024
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": lambda content: pa.compress(content, "zstd", asbytes=True),
}


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
    """What a thread makes of the body. Once that is told, nothing goes on."""

    async def run() -> Any:
        try:
            async with body:
                return await to_thread.run_sync(lambda: work(body.chunks()))
        finally:
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(run())


def test_a_thread_reads_what_arrives_in_its_order():
    pieces = [bytes([number]) * number for number in range(100)]
    body = Body(Client(*parts(*pieces)).receive, limit=10_000)
    assert in_a_thread(body, b"".join) == b"".join(pieces)
    assert body.size == sum(range(100))


def test_an_empty_body_has_no_pieces():
    assert in_a_thread(Body(Client(*parts(b"")).receive, limit=0), list) == []


def test_a_client_that_falls_silent_is_given_up():
    silent = Client(*parts(b"x", b"never sent")[:1])
    body = Body(Paced(silent.receive, 0.05), limit=99)
    with refusing("BodyBrokeOff", match="stopped arriving"):
        in_a_thread(body, list)


def test_a_thread_may_take_longer_than_a_client_may_be_silent():
    def slowly(chunks: Iterator[bytes]) -> int:
        return sum(time.sleep(0.03) or 1 for _ in chunks)

    body = Body(Paced(Client(*parts(*[b"x"] * 20)).receive, 0.5), limit=99)
    with constants(BODY_PACE_S=0.1, BODY_MIN_BYTES_S=1000):
        assert in_a_thread(body, slowly) == 20


def dripping(pieces: int, pause_s: float) -> Callable[[], Any]:
    """A client that sends a byte now and then."""
    client = Client(*parts(*[b"x"] * pieces))

    async def receive() -> dict[str, object]:
        await asyncio.sleep(pause_s)
        return await client.receive()

    return receive


def test_a_body_that_comes_in_drops_is_given_up():
    body = Body(Paced(dripping(1000, 0.02), 5), limit=1000)
    with constants(BODY_PACE_S=0.2, BODY_MIN_BYTES_S=1000), refusing("BodyTooSlow"):
        in_a_thread(body, list)
    assert body.size < 500


def test_a_body_of_the_slowest_pace_is_taken():
    body = Body(Paced(dripping(20, 0.01), 5), limit=1000)
    with constants(BODY_PACE_S=0.05, BODY_MIN_BYTES_S=1):
        assert in_a_thread(body, b"".join) == b"x" * 20


def test_behind_its_body_a_request_may_be_silent():
    """Whoever streams an answer listens for the client to leave."""

    async def run() -> None:
        paced = Paced(Client(*parts(b"x")).receive, 0.01)
        await paced()
        with pytest.raises(TimeoutError, match=r"^$"):
            async with asyncio.timeout(0.1):
                await paced()

    asyncio.run(run())


def test_a_client_that_leaves_is_told_apart_from_the_end():
    left = Client(*parts(b"one", b"two")[:1], {"type": "http.disconnect"})
    with refusing("BodyBrokeOff", match="left"):
        in_a_thread(Body(left.receive, limit=99), list)


def test_more_than_the_limit_is_refused_as_soon_as_it_arrives():
    client = Client(*parts(b"12345", b"6789", b"never asked for"))
    with pytest.raises(BodyTooLong):
        in_a_thread(Body(client.receive, limit=8), list)
    assert client.asked == 2


def test_no_more_is_taken_than_a_few_pieces_ahead_of_the_thread():
    client = Client(*parts(*[b"x"] * 100))

    def one_only(chunks: Iterator[bytes]) -> int:
        next(chunks)
        time.sleep(0.05)
        return client.asked

    body = Body(client.receive, limit=99)
    assert in_a_thread(body, one_only) <= PIECES_AHEAD + 2


def test_an_error_of_the_thread_ends_the_reading():
    client = Client(*parts(*[b"x"] * 100))

    def fail(chunks: Iterator[bytes]) -> None:
        next(chunks)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        in_a_thread(Body(client.receive, limit=99), fail)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_body_that_unpacks_to_far_more_than_was_sent_is_refused(encoding):
    """Thirty megabytes of nothing, of which the first sixteen are anybody's."""
    packed = PACK[encoding](bytes(30 * MIB))
    unpacked = decoded([packed], encoding, limit=100 * MIB, ratio=200)
    with refusing("UnpackedTooFar"):
        sum(map(len, unpacked))


def test_a_body_of_a_usual_ratio_is_taken_however_long():
    line = b"".join(b"%d," % (number * 7919) for number in range(300_000))
    packed = gzip.compress(line * 10, 1)
    unpacked = decoded([packed], "gzip", limit=100 * MIB, ratio=200)
    assert sum(map(len, unpacked)) == 10 * len(line) > FREE_BYTES
