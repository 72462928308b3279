"""The strict client itself: what it takes from a node, what it refuses, what it does not see."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import socket
import struct
import tarfile
import threading
from contextlib import contextmanager

import pytest
from mimic import Chain, CloseReason, GaveUp, Mimic

from odf_conformance import shapes
from odf_conformance.archive import BadArchive, batch, opened, pack, unpack
from odf_conformance.chains import hash_of, seeded, ten_records
from odf_conformance.http import follow, request
from odf_conformance.websocket import GUID, check_upgrade, masked
from odf_protocol.chain.rules import fold
from odf_protocol.codec.blocks import decode_block

ENTRIES = [("f1620" + "ab" * 32, b"one"), ("f1620" + "cd" * 32, b"two" * 1000)]


# --- archives, against somebody else's


@pytest.mark.parametrize("flavour", [tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
def test_archives_of_other_writers_are_read(flavour):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz", format=flavour) as tar:
        for name, content in [*ENTRIES, ("long" * 20 + "/" + "n" * 90, b"three")]:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    assert unpack(sink.getvalue()) == [*ENTRIES, ("long" * 20 + "/" + "n" * 90, b"three")]


def test_archives_are_read_by_other_readers():
    with tarfile.open(fileobj=io.BytesIO(pack(ENTRIES)), mode="r:gz") as tar:
        read = [(entry.name, tar.extractfile(entry).read(), entry.mtime) for entry in tar]
    assert read == [(name, content, 0) for name, content in ENTRIES]


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b""), gzip.compress(b"x" * 512), pack(ENTRIES)[:-9]],
    ids=["nothing", "no gzip", "no end", "no header", "cut off"],
)
def test_what_is_no_archive_is_refused(content):
    with pytest.raises(BadArchive):
        unpack(content)


@pytest.mark.parametrize("change", [{"num_blocks": 3}, {"media_type": "x"}, {"encoding": "base64"}])
def test_a_batch_that_says_something_else_is_refused(change):
    with pytest.raises(BadArchive):
        opened(batch(ENTRIES, **change))


# --- shapes


def test_unknown_fields_are_let_through_and_noted():
    notes = []
    shapes.parsed('{"Ok":{"more":1}}', shapes.PUSH_RESPONSE, notes)
    assert notes == ["unknown field $.Ok.more"]


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"Ok":{},"Err":{}}',
        '{"Err":{"Strange":{}}}',
        '{"ok":{}}',
        "[]",
        "not json",
        '{"Err":{"InvalidHead":{"actual_head":"f1620ab","expected_head":null}}}',
        '{"Err":{"Internal":{"phase":{"Push":"Somewhere"},"error_message":"x"}}}',
    ],
)
def test_a_message_of_another_shape_is_refused(text):
    with pytest.raises(shapes.BadShape):
        shapes.parsed(text, shapes.PUSH_RESPONSE, [])


@pytest.mark.parametrize("payload", ["H4sI", [256], [-1], [1.5], None, {"0": 31}])
def test_a_payload_is_an_array_of_bytes(payload):
    message = {"blocks": {**batch(ENTRIES), "payload": payload}}
    with pytest.raises(shapes.BadShape):
        shapes.parsed(json.dumps(message), shapes.PULL_METADATA, [])


# --- sockets


@contextmanager
def saying(*pieces, upgrade=True):
    """A server that shakes hands and says these bytes; pauses between them."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        peer, _ = listener.accept()
        with peer:
            head = peer.recv(65536).decode()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if upgrade:
                key = head.split("sec-websocket-key: ")[1].split("\r\n")[0]
                peer.sendall(accepted(key))
            for piece in pieces:
                peer.sendall(piece)
                threading.Event().wait(0.05)
            peer.settimeout(60)
            while peer.recv(65536):
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/foo/"
    finally:
        listener.close()
        thread.join(timeout=60)


def accepted(key, more=""):
    digest = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
    lines = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    return f"{lines}sec-websocket-accept: {digest}\r\n{more}\r\n".encode()


def frame(opcode, content, *, first=0x80):
    size = len(content)
    head = bytes([first | opcode])
    if size < 126:
        return head + bytes([size]) + content
    return head + bytes([127]) + struct.pack("!Q", size) + content


def heard(*pieces):
    with saying(*pieces) as url:
        exchange = Mimic(url).exchange("pull")
        try:
            return exchange.hear(shapes.PULL_RESPONSE)
        finally:
            exchange.socket.drop()


INVALID = b'{"Err":{"InvalidInterval":{"head":"%s","tail":"%s"}}}' % ((b"f1620" + b"ab" * 32,) * 2)


def test_fragments_are_put_together():
    reply = heard(
        frame(1, INVALID[:20], first=0), frame(0, INVALID[20:50], first=0), frame(0, INVALID[50:])
    )
    assert "InvalidInterval" in reply["Err"]


@pytest.mark.parametrize(
    "pieces",
    [
        [frame(9, b"ping")],
        [frame(10, b"pong")],
        [frame(2, INVALID)],
        [frame(0, INVALID)],
        [frame(1, INVALID, first=0xC0)],
        [bytes([0x81, 0x80 | 5]) + b"abcdhello"],
        [bytes([0x81, 127]) + struct.pack("!Q", 16 * 1024 * 1024 + 1)],
        [frame(1, b"\xff\xfe")],
        [frame(9, b"x", first=0)],
    ],
    ids=[
        *("a ping", "a pong", "binary", "a fragment out of turn", "a reserved bit", "a mask"),
        *("a frame above the limit", "no utf-8", "a ping in fragments"),
    ],
)
def test_what_the_reference_calls_a_protocol_error_ends_the_exchange(pieces):
    with pytest.raises(GaveUp) as ended:
        heard(*pieces)
    assert ended.value.why is CloseReason.INTERNAL


def test_the_reason_of_a_close_is_read_as_the_message_awaited():
    reason = b'{"Err":{"Internal":{"phase":{"Pull":"InitialRequest"},"error_message":"x"}}}'
    reply = heard(frame(8, struct.pack("!H", 1011) + reason))
    assert (reply["closed"], "Internal" in reply["Err"]) == (True, True)


@pytest.mark.parametrize(
    ("code", "reason", "why"),
    [
        (1011, b"not json", CloseReason.INTERNAL),
        (1011, b'{"Err":{"RefCollision":{"dataset_id":"x"}}}', CloseReason.INTERNAL),
        (1000, INVALID[:100], CloseReason.DISCONNECTED),
        (1001, b"", CloseReason.DISCONNECTED),
    ],
)
def test_any_other_close_is_a_disconnection_or_unreadable(code, reason, why):
    with pytest.raises(GaveUp) as ended:
        heard(frame(8, struct.pack("!H", code) + reason))
    assert ended.value.why is why


def refusal(*pieces):
    with saying(*pieces, upgrade=False) as url, pytest.raises(GaveUp) as ended:
        Mimic(url).exchange("push")
    return ended.value


REFUSED = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 5\r\n\r\n"


def test_the_body_of_a_refusal_is_seen_only_when_it_comes_with_the_headers():
    assert refusal(REFUSED + b"words").text == "words"
    assert refusal(REFUSED, b"words").text == ""


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (401, CloseReason.UNAUTHENTICATED),
        (403, CloseReason.UNAUTHORIZED),
        (404, CloseReason.NOT_FOUND),
        (500, CloseReason.INTERNAL),
        (200, CloseReason.INTERNAL),
    ],
)
def test_a_refused_upgrade_is_understood_by_its_status(status, why):
    assert refusal(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode()).why is why


@pytest.mark.parametrize(
    "more", ["sec-websocket-extensions: permessage-deflate\r\n", "sec-websocket-protocol: odf\r\n"]
)
def test_an_upgrade_to_something_nobody_offered_is_turned_down(more):
    with pytest.raises(Exception, match="none was offered"):
        from_headers(more)


def from_headers(more):
    head = accepted("key", more).decode().split("\r\n")[1:]
    check_upgrade(dict(line.split(": ", 1) for line in head if line), "key")


def answer_with(*pieces):
    return saying(*pieces, upgrade=False)


@pytest.mark.parametrize(
    ("body", "why"),
    [("f1620" + "ab" * 32 + "\n", CloseReason.INTERNAL), ("head", CloseReason.INTERNAL)],
)
def test_a_head_is_not_trimmed(body, why):
    text = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    with answer_with(text.encode()) as url, pytest.raises(GaveUp) as ended:
        Mimic(url).head()
    assert ended.value.why is why


def test_chunks_and_bodies_without_a_length_are_read():
    chunked = (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n2;x=y\r\nof\r\n0\r\n\r\n"
    )
    with answer_with(chunked) as url:
        assert request("GET", url).body == b"oneof"


def test_a_download_is_judged_by_its_hash_and_not_by_its_status():
    content = b"an error page"
    page = b"HTTP/1.1 404 Not Found\r\ncontent-length: 13\r\n\r\n" + content
    for name, fine in ((hash_of(content), True), ("f1620" + "ab" * 32, False)):
        with answer_with(page) as url:
            file = {"object_type": "DataSlice", "physical_hash": name, "size": 13}
            strategy = {"object_file": file, "download_from": {"url": url, "headers": []}}
            local = Chain()
            if fine:
                Mimic(url)._download(strategy, local)
                assert local.objects == {("data", name): content}
                continue
            with pytest.raises(GaveUp) as ended:
                Mimic(url)._download(strategy, local)
            assert ended.value.why is CloseReason.CORRUPTED


def test_redirects_are_followed_and_credentials_stay_at_home():
    with answer_with(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi") as there:
        moved = f"HTTP/1.1 302 Found\r\nlocation: {there}\r\ncontent-length: 0\r\n\r\n".encode()
        with answer_with(moved) as here:
            assert follow("GET", here, [("authorization", "Bearer x")]).body == b"hi"


def test_chains_of_the_checks_are_fine_by_the_rules_of_the_node():
    for chain in (seeded(), ten_records(), ten_records().add_rows(3)):
        state = fold([decode_block(block.raw) for block in chain.blocks])
        assert str(state.head) == chain.head


def test_large_messages_are_masked_and_arrive_whole():
    content = bytes(range(256)) * 300
    made = masked(1, content)
    head, key, mixed = made[:10], made[10:14], made[14:]
    assert struct.unpack("!Q", head[2:])[0] == len(content)
    assert bytes(byte ^ key[at % 4] for at, byte in enumerate(mixed)) == content
