"""Nodes that are played by a test: a head, and what they do with a socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from chains import FolderDataset
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from odf_protocol.transfer.bundle import pack
from odf_protocol.transfer.messages import (
    DatasetMetadataPullResponse,
    DatasetPullResponse,
    DatasetPullSuccess,
    encode,
)
from odf_protocol.transfer.phases import transfer_plan


@dataclass
class Stranger:
    """A node played by a test: its head, and what it does with a socket."""

    act: Callable[[ServerConnection], None]
    head: str | None = None
    status: int | None = None
    body: str = ""
    url: str = ""
    heard: list[str] = field(default_factory=list)

    def request(self, connection: ServerConnection, request: Any) -> Any:
        if request.path.endswith("/refs/head"):
            return connection.respond(200, self.head) if self.head else connection.respond(404, "")
        return connection.respond(self.status, self.body) if self.status else None

    def handle(self, connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            self.act(connection)


@contextmanager
def playing(stranger: Stranger) -> Iterator[Stranger]:
    with serve(
        stranger.handle,
        "127.0.0.1",
        0,
        process_request=stranger.request,
        compression=None,
        ping_interval=None,
        max_size=None,
    ) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        stranger.url = f"odf+http://127.0.0.1:{server.socket.getsockname()[1]}/x/"
        yield stranger
        server.shutdown()
        thread.join()


def plan_text(dataset: FolderDataset, **changed: int) -> str:
    plan = msgspec.structs.replace(transfer_plan(dataset.blocks), **changed)
    return encode(DatasetPullResponse(result=DatasetPullSuccess(transfer_plan=plan)))


def batch_text(dataset: FolderDataset, *, last: int | None = None, twice: int | None = None) -> str:
    """A batch of the blocks up to `last`; the block at `twice` is there two times."""
    blocks = dataset.blocks[:last]
    if twice is not None:
        blocks = [*blocks[: twice + 1], *blocks[twice:]]
    return encode(DatasetMetadataPullResponse(blocks=pack(blocks)))


def strategies(asked: str, base: str) -> list[dict[str, Any]]:
    folders = {"DataSlice": "data", "Checkpoint": "checkpoints"}
    return [
        {
            "object_file": file,
            "pull_strategy": "HttpDownload",
            "download_from": {
                "url": f"{base}{folders[file['object_type']]}/{file['physical_hash']}",
                "headers": [],
                "expires_at": None,
            },
        }
        for file in json.loads(asked)["object_files"]
    ]


def honest_pull(
    dataset: FolderDataset,
    base: str,
    *,
    plan: str | None = None,
    batch: str | None = None,
    change: Callable[[list[dict[str, Any]]], Any] = lambda listed: listed,
) -> Callable[[ServerConnection], None]:
    """Pull as a node should do it, except where told otherwise."""

    def act(connection: ServerConnection) -> None:
        connection.recv()
        connection.send(plan or plan_text(dataset))
        connection.recv()
        connection.send(batch or batch_text(dataset))
        while True:
            listed = change(strategies(connection.recv(), base))
            connection.send(json.dumps({"object_transfer_strategies": listed}))

    return act
