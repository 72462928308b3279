"""Sends hostile requests over sockets of its own, and notes what came back.

A slow request sends its head and body a few bytes at a time and takes its answer as slowly. Nobody
waits for the end of an endless answer: the status line is what counts.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from urllib.parse import urlsplit

from requests_made import Asked
from requests_twisted import FRAMINGS

SILENCE_S = 90.0
"""A request that gets not a byte in this time, and whose connection stays open, needs a kill."""
SLOW_S = 4.0
"""How long a slow one goes on."""
TAKEN = 2_000_000
"""Bytes of an answer that are taken."""
LISTENS_S = 1.0
"""How long an answer that never ends is listened to."""
BY_DESIGN = {501, 502, 503, 507}
"""What is not served here, a server of others that failed, and what is full for a while."""
WAITS = {503, 507}
FRAMES = (
    bytes([0x81, 0xFF]) + (2**62).to_bytes(8, "big") + bytes(4) + b"{" * 1000,
    bytes([0x01, 0x81, 0, 0, 0, 0]) + b"{" + (bytes([0x00, 0x81, 0, 0, 0, 0]) + b" ") * 3_000,
    bytes([0x81, 0xFE]) + (60_000).to_bytes(2, "big") + bytes(4) + b"[" * 60_000,
    bytes([0x82, 0x85, 0, 0, 0, 0]) + b"\xff" * 5,
    b"\xff" * 2_000,
)
"""Messages of a WebSocket: endless, in pieces, deep, of bytes, and none at all."""


@dataclass(frozen=True)
class Outcome:
    """What became of a request. No status: the connection was closed without one."""

    asked: Asked
    status: int | None
    seconds: float
    retry_after: bool = False
    is_silent: bool = False
    text: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether it is a fault of the node: a crash, or silence."""
        if self.is_silent:
            return True
        if self.status is None or self.status < 500:
            return False
        return self.status not in BY_DESIGN or (self.status in WAITS and not self.retry_after)

    def __str__(self) -> str:
        told = "silence" if self.is_silent else self.status
        return f"{told} after {self.seconds:.1f} s: {self.asked}: {self.text[-300:]}"


def send_all(
    url: str, requests: Iterable[Asked], tokens: dict[str, str | None], *, at_once: int, seed: int
) -> list[Outcome]:
    """Send them from so many threads; return what became of each."""
    waiting: SimpleQueue[Asked] = SimpleQueue()
    for each in requests:
        for _ in range(each.times):
            waiting.put(each)
    outcomes: list[Outcome] = []

    def work(own: int) -> None:
        rng = random.Random(own)
        while True:
            try:
                asked = waiting.get_nowait()
            except Empty:
                return
            outcomes.append(send(url, asked, tokens[asked.caller], rng))

    threads = [threading.Thread(target=work, args=(seed + n,)) for n in range(at_once)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return outcomes


def send(url: str, asked: Asked, token: str | None, rng: random.Random) -> Outcome:
    """Send a request; return what became of it."""
    address = urlsplit(url)
    began = time.monotonic()
    try:
        with socket.create_connection((address.hostname or "", address.port or 80), 30) as link:
            link.settimeout(SILENCE_S)
            with suppress(ConnectionError):  # it may answer before it has all, and hang up
                _say(link, bytes_of(asked, token), asked.shape == "slow")
            head = _taken(link, asked, rng)
    except TimeoutError:
        return Outcome(asked, None, time.monotonic() - began, is_silent=True)
    except OSError:
        return Outcome(asked, None, time.monotonic() - began)
    words = head.split(b" ", 2)
    status = int(words[1]) if head.startswith(b"HTTP/1.1 ") else None
    waits = b"\r\nretry-after:" in head.lower()
    text = head.decode("latin-1")
    return Outcome(asked, status, time.monotonic() - began, waits, text=text)


def bytes_of(asked: Asked, token: str | None) -> bytes:
    """Return the request as it is sent."""
    told = {"Host": "127.0.0.1", "Connection": "close", **asked.headers}
    if token is not None:
        told["Authorization"] = f"Bearer {token}"
        told["Cookie"] = f"odf_session={token}"  # what pages look at
    if asked.upgrades:
        told |= {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "x-odf-smtp-version": "1",
        }
    framed, body = FRAMINGS[asked.framing](asked.body)
    if asked.in_a_row > 1:
        told["Connection"] = "keep-alive"
    told = {each: text for each, text in told.items() if each.lower() not in _names(asked.lines)}
    pairs = (*told.items(), *asked.lines, *framed)
    lines = "".join(f"{name}: {value}\r\n" for name, value in pairs)
    head = f"{asked.method} {asked.target} HTTP/1.1\r\n{lines}\r\n"
    return (head.encode("latin-1", "replace") + body) * asked.in_a_row


def _names(lines: Iterable[tuple[str, str]]) -> set[str]:
    return {name.lower() for name, _ in lines}


def _say(link: socket.socket, content: bytes, slow: bool) -> None:
    if not slow:
        link.sendall(content)
        return
    until, at = time.monotonic() + SLOW_S, 0
    while at < len(content) and time.monotonic() < until:
        link.sendall(content[at : at + 40])
        at += 40
        time.sleep(0.05)
    link.sendall(content[at : at + 100_000])
    if at + 100_000 < len(content):
        link.shutdown(socket.SHUT_WR)


def _taken(link: socket.socket, asked: Asked, rng: random.Random) -> bytes:
    """The beginning of the answer; the rest is taken, as far as it comes in a second."""
    head = link.recv(4096)
    if asked.upgrades and head.startswith(b"HTTP/1.1 101"):
        with suppress(OSError):
            link.sendall(asked.frames or rng.choice(FRAMES))
    left, until = TAKEN, time.monotonic() + (SLOW_S if asked.shape == "slow" else LISTENS_S)
    link.settimeout(LISTENS_S)
    with suppress(OSError):
        while left > 0 and time.monotonic() < until:
            if asked.shape == "slow":
                time.sleep(0.2)
            more = link.recv(1_000 if asked.shape == "slow" else 65_536)
            if not more:
                break
            left -= len(more)
            head = head if len(head) > 8_000 else head + more
    return head
