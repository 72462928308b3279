"""The client's side of a smart transfer, message by message, for tests of the service."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import tarfile

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from odf_storage.stores.ports.values import ObjectKind

VERSION = {"x-odf-smtp-version": "1"}
PLAN = {"num_objects": 0, "num_records": 0, "bytes_in_raw_blocks": 1, "bytes_in_raw_objects": 0}
TYPES = {ObjectKind.DATA: "DataSlice", ObjectKind.CHECKPOINT: "Checkpoint"}


class Peer:
    """A client that says exactly what it is told to."""

    def __init__(self, socket):
        self.socket = socket

    def say(self, message):
        self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def hear(self, timeout=60):
        return json.loads(self.socket.recv(timeout=timeout))

    def ask(self, message):
        self.say(message)
        return self.hear()

    def close_frame(self):
        """Code and reason of the node's Close, with no text message before it."""
        with pytest.raises(ConnectionClosed) as closed:
            self.socket.recv(timeout=60)
        return closed.value.rcvd.code, closed.value.rcvd.reason

    def request_push(self, head, blocks, *, force=False, visibility="Private"):
        return self.ask(
            {
                "current_head": head and str(head),
                "transfer_plan": {**PLAN, "num_blocks": blocks},
                "force_update_if_diverged": force,
                "visibility_for_created_dataset": visibility,
            }
        )


@contextlib.contextmanager
def talking(service, path, token=None, **more):
    headers = {**VERSION, **({"authorization": f"Bearer {token}"} if token else {})}
    with connect(
        service.url.replace("http", "ws") + path,
        additional_headers=headers,
        compression=None,
        ping_interval=None,
        max_size=None,
        close_timeout=2,
        **more,
    ) as connection:
        yield Peer(connection)


def bundled(blocks, **changes):
    """A batch as the reference makes it."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, raw in blocks:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.type = len(raw), 0, tarfile.AREGTYPE
            tar.addfile(entry, io.BytesIO(raw))
    batch = {
        "num_blocks": len(blocks),
        "media_type": "application/tar+gzip",
        "encoding": "raw",
        "payload": list(gzip.compress(sink.getvalue())),
    }
    return {"new_blocks": {**batch, **changes}}


def named(blocks):
    return [(str(block.hash), block.raw) for block in blocks]


def files_of(chain):
    return [
        {"object_type": TYPES[kind], "physical_hash": str(name), "size": len(content)}
        for (kind, name), content in chain.objects.items()
    ]


def upload(answer, chain):
    contents = {str(name): content for (_, name), content in chain.objects.items()}
    for strategy in answer["Ok"]["object_transfer_strategies"]:
        if strategy["push_strategy"] == "HttpUpload":
            target = strategy["upload_to"]
            headers = {h["name"]: h["value"] for h in target["headers"]}
            body = contents[strategy["object_file"]["physical_hash"]]
            assert httpx.put(target["url"], content=body, headers=headers).status_code == 200


def push(service, path, chain, token, *, start=0, head=None, force=False, visibility="Private"):
    """The happy path: all blocks from `start` on."""
    blocks = chain.blocks[start:]
    with talking(service, path + "/push", token) as peer:
        answer = peer.request_push(head, len(blocks), force=force, visibility=visibility)
        assert answer == {"Ok": {}}
        assert peer.ask(bundled(named(blocks))) == {"Ok": {}}
        answer = peer.ask({"object_files": files_of(chain), "is_truncated": False})
        upload(answer, chain)
        peer.say({"details": "Complete"})
        confirmed = peer.ask({})
        peer.socket.close(1000, "Client push flow succeeded")
    assert confirmed == {}
    return answer


def head_of(service, path, token=None):
    """Where the dataset is, for its owner unless a token says otherwise."""
    with service.http(token or service.token()) as client:
        answer = client.get(f"{path}/refs/head")
    return answer.text if answer.status_code == 200 else None


# --- pull -----------------------------------------------------------------------------------


def request_pull(peer, after=None, until=None, *, force=False):
    return peer.ask(
        {
            "begin_after": after and str(after),
            "stop_at": until and str(until),
            "force_update_if_diverged": force,
        }
    )


def unbundled(batch):
    assert (batch["media_type"], batch["encoding"]) == ("application/tar+gzip", "raw")
    raw = gzip.decompress(bytes(batch["payload"]))
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        return [(entry.name, tar.extractfile(entry).read()) for entry in tar]
