"""Batches as base64, for peers that ask for it; numbers, as the reference has it, for others."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import os
import tarfile

import pytest
from service import described, seeded
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

HEADER = "x-odf-node-payload"
PULL = {"begin_after": None, "stop_at": None, "force_update_if_diverged": False}
LARGE = 3_000_000


@contextlib.contextmanager
def talking(service, path, token=None, asked=None):
    headers = {"x-odf-smtp-version": "1"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    if asked:
        headers[HEADER] = asked
    url = service.url.replace("http", "ws") + path
    with connect(
        url, additional_headers=headers, compression=None, ping_interval=None, max_size=None
    ) as socket:
        yield socket


def ask(socket, message):
    socket.send(json.dumps(message))
    return json.loads(socket.recv(timeout=60))


def archived(content):
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        return [(entry.name, tar.extractfile(entry).read()) for entry in tar]


def bundle(blocks):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for block in blocks:
            entry = tarfile.TarInfo(str(block.hash))
            entry.size = len(block.raw)
            tar.addfile(entry, io.BytesIO(block.raw))
    return gzip.compress(sink.getvalue())


def named(chain):
    return [(str(block.hash), block.raw) for block in chain.blocks]


@pytest.fixture(scope="module")
def chain(single):
    """Two blocks that compress badly: several pieces and frames in either form."""
    chain = seeded().add(described(base64.b64encode(os.urandom(LARGE)).decode()))
    single.keep(chain)
    return chain


def test_who_asks_for_base64_gets_it(single, chain):
    with talking(single, "/foo/pull", asked="base64") as socket:
        assert socket.response.headers[HEADER] == "base64"
        assert ask(socket, PULL)["Ok"]["transfer_plan"]["num_blocks"] == 2
        batch = ask(socket, {})["blocks"]
    assert (batch["encoding"], batch["num_blocks"]) == ("base64", 2)
    assert archived(base64.b64decode(batch["payload"], validate=True)) == named(chain)


@pytest.mark.parametrize("asked", [None, "raw", "BASE64", "base64, zstd"])
def test_who_does_not_ask_for_it_gets_numbers(single, chain, asked):
    with talking(single, "/foo/pull", asked=asked) as socket:
        assert HEADER not in socket.response.headers
        ask(socket, PULL)
        batch = ask(socket, {})["blocks"]
    assert batch["encoding"] == "raw"
    assert archived(bytes(batch["payload"])) == named(chain)


def _pushed(socket, blocks, payload, encoding):
    plan = {"num_blocks": len(blocks), "num_objects": 0, "num_records": 0,
            "bytes_in_raw_blocks": 1, "bytes_in_raw_objects": 0}  # fmt: skip
    ask(
        socket,
        {
            "current_head": None,
            "transfer_plan": plan,
            "force_update_if_diverged": False,
            "visibility_for_created_dataset": "Public",
        },
    )
    batch = {"num_blocks": len(blocks), "media_type": "application/tar+gzip"}
    return ask(socket, {"new_blocks": {**batch, "encoding": encoding, "payload": payload}})


@pytest.mark.parametrize("encoding", ["raw", "base64"])
def test_a_push_that_agreed_on_base64_may_use_either_form(single, encoding):
    chain = seeded().add(described("pushed"))
    content = bundle(chain.blocks)
    payload = list(content) if encoding == "raw" else base64.b64encode(content).decode()
    name = f"/pushed-{encoding}"
    with talking(single, f"{name}/push", single.token(), asked="base64") as socket:
        assert _pushed(socket, chain.blocks, payload, encoding) == {"Ok": {}}
        ask(socket, {"object_files": [], "is_truncated": False})
        socket.send('{"details":"Complete"}')
        assert ask(socket, {}) == {}
    with single.http() as client:
        assert client.get(f"{name}/refs/head").text == str(chain.head)


@pytest.mark.parametrize(
    ("asked", "encoding", "text"),
    [(None, "base64", None), ("base64", "base64", "no base64!"), ("base64", "zstd", None)],
)
def test_what_was_not_agreed_on_is_refused(single, asked, encoding, text):
    blocks = seeded().blocks
    payload = text or base64.b64encode(bundle(blocks)).decode()
    with (
        talking(single, "/refused/push", single.token(), asked=asked) as socket,
        pytest.raises(ConnectionClosed) as closed,
    ):
        _pushed(socket, blocks, payload, encoding)
    assert closed.value.rcvd.code == 1011
