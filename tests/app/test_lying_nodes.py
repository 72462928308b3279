"""What a client takes of a node that it does not trust has an end: rows, messages, and time."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pyarrow as pa
import pytest

import odf_node
from odf_node.client.nodes.http import open_http
from odf_node.client.nodes.limits import LIMITS
from odf_protocol.errors import LimitExceeded

BLOCK = "f1620" + "0" * 64
HEAD = (
    f"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.apache.arrow.stream\r\n"
    f"odf-block: {BLOCK}\r\nconnection: close\r\n\r\n"
).encode()


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve the answer to every request, until the client is gone."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    def one(connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65_536)
                answer(connection)
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/x"
    finally:
        listening.close()


def rows_without_end(connection: socket.socket) -> None:
    schema = pa.schema([("a", pa.int64())])
    batch = pa.record_batch([pa.array(range(1000))], schema)
    made = io.BytesIO()
    writer = pa.ipc.new_stream(made, schema)
    connection.sendall(HEAD)
    for _ in range(100_000):
        writer.write_batch(batch)
        connection.sendall(made.getvalue())
        made.seek(0)
        made.truncate()


def test_a_node_that_sends_more_rows_than_were_asked_for_is_read_no_further():
    with answering(rows_without_end) as url:
        assert len(odf_node.open(url).pandas(limit=1500)) == 1500


def test_a_message_that_announces_more_than_a_client_takes_is_refused_before_it_comes():
    def announcing(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"\xff\xff\xff\xff" + (0x7FFF_FFF8).to_bytes(4, "little"))
        time.sleep(100)

    began = time.monotonic()
    with answering(announcing) as url, pytest.raises((LimitExceeded, OSError, pa.ArrowInvalid)):
        odf_node.open(url).pandas(limit=3)
    assert time.monotonic() - began < 100


def test_a_head_that_comes_in_drops_is_given_up():
    def dripping(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        for number in range(1000):
            connection.sendall(b"x-%d: 1\r\n" % number)
            time.sleep(0.1)

    began = time.monotonic()
    limits = replace(LIMITS, answer_s=1.0)
    with (
        answering(dripping) as url,
        open_http(limits) as http,
        pytest.raises(httpx.ReadTimeout),
    ):
        http.get(url)
    assert time.monotonic() - began < 60
