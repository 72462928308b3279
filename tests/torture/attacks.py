"""What a hostile account, or a stranger, does to a node: a table, one line an attack.

Each attack is a function of the stage; it begins, calls `ready`, and goes on until `over` is set.
What it finds refused is no failure: the judge looks at the other account alone. An attack that
needs a dataset of its own makes it before it calls `ready`. To add one: a function, and a line.
"""

from __future__ import annotations

import io
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HEAD = "Host: x\r\n"
WEBSOCKET = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nx-odf-smtp-version: 1\r\n"
)


@dataclass
class Stage:
    """The node, the hostile account, and when to end. `size` scales what is cheap to scale."""

    url: str
    token: str
    dataset: str
    """A dataset of the hostile account that takes rows, and one (`wide`) of few bytes and long
    rows beside it, both to be read by everybody."""
    wide: str
    size: float = 1.0
    over: threading.Event = field(default_factory=threading.Event)

    def connect(self) -> socket.socket:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return socket.create_connection((host, int(port)), timeout=10)

    def http(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {self.token}"}, timeout=30
        )

    def times(self, count: int) -> range:
        return range(max(1, int(count * self.size)))


Ready = Callable[[], None]


def dripping_bodies(stage: Stage, ready: Ready) -> None:
    """Forty posts that announce a megabyte and send a byte a second."""
    with ExitStack() as held:
        links = [held.enter_context(stage.connect()) for _ in stage.times(40)]
        for link in links:
            link.sendall(
                f"POST /{stage.dataset}/ingest HTTP/1.1\r\n{HEAD}Authorization: Bearer "
                f"{stage.token}\r\nContent-Length: 1000000\r\n\r\n[".encode()
            )
        ready()
        while not stage.over.wait(1):
            for link in links:
                with suppress(OSError):
                    link.sendall(b" ")


def big_tails(stage: Stage, ready: Ready) -> None:
    """A hundred megabytes of answer out of a few kilobytes, again and again, by strangers."""

    def ask() -> None:
        with httpx.Client(base_url=stage.url, timeout=60) as client:
            while not stage.over.is_set():
                with suppress(httpx.HTTPError):
                    for path in ("tail?limit=400", "read"):
                        if client.get(f"/{stage.wide}/{path}").status_code in (429, 503):
                            time.sleep(0.1)

    _at_once(stage, [ask] * len(stage.times(8)), ready)


def endless_headers(stage: Stage, ready: Ready) -> None:
    """Header lines without an end, and one value without an end."""

    def send(line: bytes) -> None:
        while not stage.over.is_set():
            with suppress(OSError), stage.connect() as link:
                link.sendall(f"GET / HTTP/1.1\r\n{HEAD}X-A: ".encode())
                while not stage.over.is_set():
                    link.sendall(line * 1000)

    _at_once(stage, [lambda: send(b"y" * 100), lambda: send(b"y\r\nX-B: " * 10)] * 2, ready)


def tiny_fragments(stage: Stage, ready: Ready) -> None:
    """A message in frames of one byte, without an end."""
    frames = bytes([0x00, 0x81, 0, 0, 0, 0]) + b" "

    def send() -> None:
        while not stage.over.is_set():
            with suppress(OSError), _pull(stage) as link:
                link.sendall(bytes([0x01, 0x81, 0, 0, 0, 0]) + b"{")
                while not stage.over.is_set():
                    link.sendall(frames * 10_000)

    _at_once(stage, [send] * 2, ready)


def silent_pulls(stage: Stage, ready: Ready) -> None:
    """Pulls that are opened and say nothing, or the half of a long message."""
    begun = bytes([0x01, 0xFF]) + (60 * 1024 * 1024).to_bytes(8, "big") + bytes(4)
    with ExitStack() as held:
        for number in stage.times(300):
            with suppress(OSError):
                link = held.enter_context(_pull(stage))
                if number % 10 == 0:
                    link.sendall(begun + b" " * 100_000)
        ready()
        stage.over.wait()


def device_logins(stage: Stage, ready: Ready) -> None:
    """Logins of command lines that nobody ends."""

    def ask() -> None:
        with httpx.Client(base_url=stage.url, timeout=30) as client:
            while not stage.over.is_set():
                with suppress(httpx.HTTPError):
                    asked = {"client_id": "kamu-cli"}
                    client.post("/platform/token/device/authorization", data=asked)

    _at_once(stage, [ask] * 2, ready)


def begun_uploads(stage: Stage, ready: Ready) -> None:
    """First bytes of objects that never come."""

    def begin() -> None:
        with stage.http() as client:
            while not stage.over.is_set():
                told = {"upload-offset": "0", "upload-length": "1000000"}
                name = f"f1620{os.urandom(32).hex()}"
                with suppress(httpx.HTTPError):
                    client.patch(f"/{stage.dataset}/data/{name}", content=b"x", headers=told)

    _at_once(stage, [begin] * 2, ready)


def slow_readers(stage: Stage, ready: Ready) -> None:
    """Answers that are asked for and not taken."""
    with ExitStack() as held:
        for _ in stage.times(40):
            link = held.enter_context(stage.connect())
            link.sendall(f"GET /{stage.wide}/read HTTP/1.1\r\n{HEAD}\r\n".encode())
        ready()
        stage.over.wait()


def parquet_bombs(stage: Stage, ready: Ready) -> None:
    """Small files of very many rows, and of cells of a hundred megabytes."""
    rows = int(20_000_000 * stage.size)
    many = _parquet(pa.array(["x"]).take(pa.array(np.zeros(rows, np.int32))), rows)
    cells = _parquet(pa.array(["x" * int(100_000_000 * stage.size)]).take(pa.array([0] * 2)), 2)
    _posting(stage, stage.wide, [many, cells], "application/vnd.apache.parquet", ready)


def heavy_queries(stage: Stage, ready: Ready) -> None:
    """Posts whose preprocess query multiplies rows without an end, or makes texts of gigabytes."""
    body = b"".join(b'{"city": "A", "n": %d}\n' % number for number in range(2000))
    queries = (
        "select 'x' as city, sum(a.n*b.n) as n from input a, input b, input c, input d",
        "select 'x' as city, length(repeat(city, 2000000000)) as n from input",
    )
    with stage.http() as client:
        places = [_preprocessed(client, stage, query) for query in queries]
    works = [partial(_post_on, stage, place, [body], "application/x-ndjson") for place in places]
    try:
        _at_once(stage, works, ready)
    finally:
        _cancel_all(stage, places)


def long_queries(stage: Stage, ready: Ready) -> None:
    """Definitions whose query has twenty thousand terms, or as many brackets."""
    terms = "select city, " + "+".join(["n"] * 20_000) + " as n from input"
    nested = "select city, " + "(" * 5_000 + "n" + ")" * 5_000 + " as n from input"

    def define() -> None:
        with stage.http() as client:
            while not stage.over.is_set():
                for query in (terms, nested):
                    with suppress(httpx.HTTPError):
                        _preprocessed(client, stage, query)

    _at_once(stage, [define] * 2, ready)


ATTACKS: dict[str, Callable[[Stage, Ready], None]] = {
    "dripping-bodies": dripping_bodies,
    "big-tails": big_tails,
    "endless-headers": endless_headers,
    "tiny-fragments": tiny_fragments,
    "silent-pulls": silent_pulls,
    "device-logins": device_logins,
    "begun-uploads": begun_uploads,
    "slow-readers": slow_readers,
    "parquet-bombs": parquet_bombs,
    "heavy-queries": heavy_queries,
    "long-queries": long_queries,
}


def _pull(stage: Stage) -> socket.socket:
    link = stage.connect()
    link.sendall(f"GET /{stage.wide}/pull HTTP/1.1\r\n{HEAD}{WEBSOCKET}\r\n".encode())
    link.recv(4096)
    return link


def _parquet(cities: pa.Array, rows: int) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"city": cities, "n": pa.array(np.zeros(rows, np.int64))})
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def _preprocessed(client: httpx.Client, stage: Stage, query: str) -> str:
    """A new dataset of the hostile account, with a query for what is posted to it."""
    account, name = stage.dataset.partition("/")[0], f"query-{os.urandom(8).hex()}"
    source = {
        "kind": "AddPushSource",
        "sourceName": "default",
        "read": {"kind": "NdJson", "schema": ["city STRING", "n BIGINT"]},
        "preprocess": {"kind": "Sql", "engine": "datafusion", "query": query},
        "merge": {"kind": "Append"},
    }
    content = {"name": name, "kind": "Root", "metadata": [source]}
    client.post("/datasets", json={"kind": "DatasetSnapshot", "version": 1, "content": content})
    return f"{account}/{name}"


def _posting(stage: Stage, place: str, bodies: list[bytes], kind: str, ready: Ready) -> None:
    try:
        _at_once(stage, [partial(_post_on, stage, place, bodies, kind)] * 2, ready)
    finally:
        _cancel_all(stage, [place])


def _post_on(stage: Stage, place: str, bodies: list[bytes], kind: str) -> None:
    """Posts that wait for nothing, one after another."""
    told = {"content-type": kind, "prefer": "respond-async"}
    with stage.http() as client:
        while not stage.over.is_set():
            for body in bodies:
                with suppress(httpx.HTTPError):
                    answer = client.post(f"/{place}/ingest", content=body, headers=told)
                    if answer.status_code in (429, 503):
                        time.sleep(0.1)


def _cancel_all(stage: Stage, places: list[str]) -> None:
    """What still waits or runs would be an attack on the next measurement."""
    told = {"status": "waiting,running", "limit": 100}
    with stage.http() as client, suppress(httpx.HTTPError):
        for place in places:
            while jobs := client.get(f"/{place}/jobs", params=told).json().get("jobs"):
                for job in jobs:
                    client.delete(f"/jobs/{job['id']}")
                time.sleep(0.1)


def _at_once(stage: Stage, works: list[Callable[[], Any]], ready: Ready) -> None:
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    ready()
    stage.over.wait()
    for thread in threads:
        thread.join(timeout=30)
