"""A peer that says too much, in too many pieces, nothing, or on too many sockets, harms nobody."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from contextlib import ExitStack, suppress

import httpx
import pytest
from raw_peer import VERSION, head_of, request_pull, talking
from service import serving, ten_rows
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Opcode

from odf_node.service.transfer.server_socket import TransferSocket

KIB = 1024
TOO_BIG, POLICY, INVALID_DATA = 1009, 1008, 1007


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    sizes = {
        "first_message_bytes": 4 * KIB,
        "pull_message_bytes": 64 * KIB,
        "max_frames": 1000,
    }
    limits = {"transfer_first_s": 5.0, "max_transfers": 4, "share": 0.75}
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setattr(TransferSocket, name, size)
        with serving(tmp_path_factory.mktemp("limits"), **limits) as service:
            service.keep(ten_rows())
            yield service


def frame(opcode: int, payload: bytes = b"", *, last: bool = False) -> bytes:
    """As a client sends it, masked by zeros."""
    assert len(payload) < 126
    return bytes([opcode | (0x80 if last else 0), 0x80 | len(payload)]) + bytes(4) + payload


class RawSocket:
    """A WebSocket of which every byte is sent by hand."""

    def __init__(self, node, path: str) -> None:
        host, _, port = node.url.removeprefix("http://").partition(":")
        self.link = socket.create_connection((host, int(port)), timeout=60)
        headers = {
            "Host": host,
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            **VERSION,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.link.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        assert b" 101 " in self.link.recv(4 * KIB)

    def __enter__(self) -> RawSocket:
        return self

    def __exit__(self, *_) -> None:
        self.link.close()

    def close_code(self) -> int:
        """Code of the Close frame the node sends, behind what else it sends."""
        received = b""
        with suppress(ConnectionResetError):
            while piece := self.link.recv(64 * KIB):
                received += piece
        at = received.index(b"\x88")
        return int(struct.unpack("!H", received[at + 2 : at + 4])[0])


def test_a_text_that_is_none_is_the_fault_of_the_peer(node, caplog):
    with RawSocket(node, "/foo/pull") as peer:
        peer.link.sendall(frame(Opcode.TEXT, b"\xff\xfe", last=True))
        assert peer.close_code() == INVALID_DATA
    [told] = [each for each in caplog.records if "UTF-8" in each.getMessage()]
    assert (told.levelname, told.exc_info) == ("WARNING", None)


@pytest.mark.parametrize("opcode", [Opcode.CONT, Opcode.PING], ids=["fragments", "pings"])
def test_frames_without_an_end_close_the_connection_and_hold_nobody_up(node, opcode):
    with RawSocket(node, "/foo/pull") as peer:
        peer.link.sendall(frame(Opcode.TEXT, b"{"))
        flood = frame(opcode, b" ", last=opcode == Opcode.PING) * 10_000
        with suppress(OSError):
            for _ in range(10):
                peer.link.sendall(flood)
                assert httpx.get(f"{node.url}/system/health", timeout=60).status_code == 200
        # What nobody reads any more takes the Close frame along, when the socket is reset.
    with RawSocket(node, "/foo/pull") as peer:
        peer.link.sendall(frame(Opcode.TEXT, b"{"))
        peer.link.sendall(frame(opcode, b" ", last=opcode == Opcode.PING) * 1001)
        assert peer.close_code() == POLICY


def test_as_many_fragments_as_allowed_are_one_message(node):
    with RawSocket(node, "/foo/pull") as peer:
        text = json.dumps(
            {"begin_after": None, "stop_at": None, "force_update_if_diverged": False}
        ).encode()
        pieces = [text[at : at + 1] for at in range(len(text))]
        frames = [
            frame(Opcode.TEXT, pieces[0]),
            *(frame(Opcode.CONT, piece) for piece in pieces[1:]),
        ]
        filling = [frame(Opcode.CONT)] * (999 - len(frames))
        peer.link.sendall(b"".join([*frames, *filling, frame(Opcode.CONT, last=True)]))
        assert b"Ok" in peer.link.recv(64 * KIB)


def test_pieces_keep_their_order_when_they_wait_for_their_turn(node):
    """More frames than a turn of the event loop takes, and a message behind them."""
    with RawSocket(node, "/foo/pull") as peer:
        text = json.dumps(
            {
                "begin_after": None,
                "stop_at": head_of(node, "foo"),
                "force_update_if_diverged": False,
            }
        ).encode()
        pings = frame(Opcode.PING, b"x", last=True) * 900
        frames = b"".join(frame(Opcode.CONT, text[at : at + 1]) for at in range(1, len(text)))
        peer.link.sendall(
            pings + frame(Opcode.TEXT, text[:1]) + frames + frame(Opcode.CONT, last=True)
        )
        received = b""
        while b"transfer_plan" not in received:
            received += peer.link.recv(64 * KIB)


def test_the_first_message_is_a_small_one(node):
    with talking(node, "/foo/pull") as peer:
        with suppress(ConnectionClosed):
            peer.say(" " * 5 * KIB)
        assert peer.close_frame()[0] == TOO_BIG


def test_messages_of_a_pull_are_smaller_than_those_of_a_push(node):
    with talking(node, "/foo/pull") as peer:
        request_pull(peer)
        peer.say("{}" + " " * 5 * KIB)
        assert "blocks" in peer.hear()
        with suppress(ConnectionClosed):
            peer.say(" " * 70 * KIB)
        assert peer.close_frame()[0] == TOO_BIG
    with talking(node, "/new/push", node.token()) as peer:
        peer.request_push(None, 1)
        peer.say(" " * 70 * KIB)
        assert peer.close_frame()[0] not in (TOO_BIG, POLICY)


def test_a_client_that_says_nothing_is_parted_from_soon(tmp_path):
    with serving(tmp_path, transfer_first_s=0.3) as node:
        node.keep(ten_rows())
        for path, token in (("/foo/pull", None), ("/foo/push", node.token())):
            began = time.monotonic()
            with talking(node, path, token) as peer:
                assert peer.close_frame()[0] == 1011
            assert time.monotonic() - began < 60  # of 24 hours


def test_half_a_message_is_silence(tmp_path):
    with serving(tmp_path, transfer_first_s=0.3) as node:
        node.keep(ten_rows())
        with RawSocket(node, "/foo/pull") as peer:
            peer.link.sendall(frame(Opcode.TEXT, b"{"))
            assert peer.close_code() == 1011


def test_a_pull_that_began_waits_longer(tmp_path):
    with serving(tmp_path, transfer_first_s=2.0, pull_idle_s=6.0) as node:
        node.keep(ten_rows())
        with talking(node, "/foo/pull") as peer:
            request_pull(peer)
            time.sleep(2.5)
            assert "blocks" in peer.ask({})
            assert peer.close_frame()[0] == 1011


def refusal(node, path: str, token: str | None = None) -> httpx.Response:
    with pytest.raises(InvalidStatus) as refused, talking(node, path, token):
        pass
    return refused.value.response


def test_one_caller_has_so_many_transfers_open_and_leaves_room_for_others(node):
    mine = node.token("kamu")
    with ExitStack() as open_ones:
        for _ in range(3):
            open_ones.enter_context(talking(node, "/foo/pull"))
        refused = refusal(node, "/foo/pull")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert json.loads(refused.body)["setting"] == "ODF_NODE_SHARE"
        # Another caller finds room, until there is none for anybody.
        open_ones.enter_context(talking(node, "/foo/pull", mine))
        refused = refusal(node, "/foo/pull", mine)
        assert refused.status_code == 503
        assert json.loads(refused.body)["setting"] == "ODF_NODE_MAX_TRANSFERS"
    deadline = time.monotonic() + 60
    while True:  # the node notices that they are closed
        with suppress(InvalidStatus), talking(node, "/foo/pull") as peer:
            assert "Ok" in request_pull(peer)
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_refused_transfer_takes_no_place(node):
    for _ in range(10):
        assert refusal(node, f"/{os.urandom(4).hex()}/pull").status_code == 404
    with talking(node, "/foo/pull") as peer:
        assert "Ok" in request_pull(peer)
