"""What goes on while everything is being killed: chains are pushed, rows are posted.

Clients do what clients do: they try again until it works, and note what was acknowledged.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from chains import FolderDataset, make_dataset

from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_protocol.errors import NodeError, code_of
from odf_storage.stores.ports.values import Visibility

FIELDS = '[{"name": "text", "type": "String"}]'
MANIFEST = {
    "kind": "AddPushSource",
    "sourceName": "default",
    "read": {"kind": "NdJson"},
    "merge": {"kind": "Append"},
}
TRIES_PAUSE_S = 0.2


@dataclass
class Said:
    """What one client was told: heads that were acknowledged, rows that were taken or may be."""

    alias: str
    heads: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)

    def failed(self, what: str) -> None:
        self.failures[what] = self.failures.get(what, 0) + 1


Client = Callable[[str, str, Path, Said, threading.Event], None]


def push(url: str, token: str, folder: Path, said: Said, stop: threading.Event) -> None:
    """A growing folder, pushed after each batch of rows."""
    ours: FolderDataset = make_dataset(
        folder / said.alias, rows=[3], key=int(said.alias.rpartition("-")[2]) + 1
    )
    target = Location.parse(f"odf+{url}/{said.alias}")
    while not stop.is_set():
        try:
            sync.push(
                Location.parse(str(ours.folder)), target, token=token, visibility=Visibility.PUBLIC
            )
        except (NodeError, OSError, httpx.HTTPError) as problem:
            said.failed(code_of(problem))
            stop.wait(TRIES_PAUSE_S)
            continue
        said.heads.append(str(ours.head))
        ours.add_rows(2)


def post(url: str, token: str, _folder: Path, said: Said, stop: threading.Event) -> None:
    """Rows to a push source; whether rows without an answer were taken is not known."""
    headers = {"authorization": f"Bearer {token}", "content-type": "application/x-ndjson"}
    snapshot = {"name": said.alias, "kind": "Root", "metadata": [MANIFEST]}
    body = {"kind": "DatasetSnapshot", "version": 1, "content": snapshot}
    number = 0
    with httpx.Client(base_url=url, headers=headers, timeout=20) as http:
        while not stop.is_set():
            try:
                if not said.heads:
                    made = http.post(
                        "/datasets", json=body, headers={"content-type": "application/json"}
                    )
                    if made.status_code not in (201, 409):
                        said.failed(f"{made.status_code}")
                        stop.wait(TRIES_PAUSE_S)
                        continue
                    said.heads.append(http.get(f"/{said.alias}/refs/head").raise_for_status().text)
                number += 1
                row = f"{said.alias} {number}"
                said.unsure.append(row)
                answer = http.post(f"/{said.alias}/ingest", content=f'{{"text": "{row}"}}\n')
                if answer.status_code == 200:
                    said.heads.append(answer.json()["head"])
                    said.rows.append(row)
                else:
                    said.failed(f"{answer.status_code} {answer.json().get('type', '')}")
                    stop.wait(TRIES_PAUSE_S)
            except (httpx.HTTPError, ValueError) as problem:
                said.failed(code_of(problem))
                stop.wait(TRIES_PAUSE_S)


CLIENTS: dict[str, Client] = {"pushed": push, "posted": post}


def run(
    url: str, token: str, folder: Path, stop: threading.Event, *, each: int
) -> list[tuple[Said, threading.Thread]]:
    """Start `each` clients of each kind."""
    started = []
    for kind, client in CLIENTS.items():
        for number in range(each):
            said = Said(f"{kind}-{number}")
            thread = threading.Thread(
                target=client, args=(url, token, folder, said, stop), daemon=True
            )
            thread.start()
            started.append((said, thread))
    return started


def wait_for(started: list[tuple[Said, threading.Thread]]) -> list[Said]:
    deadline = time.monotonic() + 120
    for _, thread in started:
        thread.join(max(0.1, deadline - time.monotonic()))
        assert not thread.is_alive(), "a client hangs"
    return [said for said, _ in started]
