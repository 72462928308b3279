"""A client that follows a dataset sees each block once and in order, however often nodes are
killed: on SQLite one node that comes back, on PostgreSQL two that take turns.

Short here; `ODF_TORTURE=1` makes it 20 kills over 100,000 blocks.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest
from chain_maker import entry, linked, long_chain
from nodes import COMMAND, answers
from servers import free_port, wait_until

from odf_node.client.uses.events import follow
from odf_protocol.metadata.events import SetInfo
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores

pytestmark = pytest.mark.e2e
TORTURE = bool(os.environ.get("ODF_TORTURE"))
KILLS, BLOCKS = (20, 100_000) if TORTURE else (1, 200)
PATIENCE_S = 1800 if TORTURE else 300


class Killed:
    """A node on a port of its own, killed without a word and started again."""

    def __init__(self, data: Path, log: Path, *words: str) -> None:
        self.port, self._data, self._log, self._words = free_port(), data, log, words
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--data", str(self._data)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [COMMAND, "serve", "--workers", "0", *where, *self._words],
                env={**os.environ, "ODF_NODE_ANONYMOUS_READS": "all"},
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: answers(self.url), "the node")

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


def _write(stores, made, blocks, pause_s, stop):
    """Commit one block after the other, as another process of the node would."""
    head = made[0]
    for number in range(blocks):
        if stop.is_set():
            return
        block = linked(head, SetInfo(description=f"number {number}"))
        stores.refs.move(
            made[0].event.dataset_id, expected=head.hash, new=block.hash, blocks=[block]
        )
        made.append(block)
        head = block
        time.sleep(pause_s)


def _followed(nodes, stores, kills):
    """Ids that a client was told of while `kills` nodes were killed, and those it should be."""
    created = entry("kamu/followed")
    made = [long_chain(created.id, 1)[0]]
    stores.create_dataset(created, made)
    for node in nodes:
        node.start()
    stop, seen = threading.Event(), list[str]()

    def read() -> None:
        at, last = 0, "beginning"
        while not stop.is_set():
            with httpx.Client() as http:
                url = f"{nodes[at % len(nodes)].url}/followed/events"
                # one connection each time, so that another node may have the next one
                try:
                    for event in follow(http, url, last=last, retries=len(nodes) == 1):
                        last = event.id
                        seen.append(event.id)
                        if len(seen) > BLOCKS:
                            return
                except httpx.TransportError:
                    at += 1

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    pause_s = 0.0 if TORTURE else 0.01
    writer = threading.Thread(target=_write, args=(stores, made, BLOCKS, pause_s, stop))
    writer.start()
    try:
        for number in range(kills):
            node = nodes[number % len(nodes)]
            target = min(BLOCKS, len(seen) + BLOCKS // (kills + 2))
            wait_until(lambda wanted=target: len(seen) >= wanted, "blocks", seconds=PATIENCE_S)
            node.kill()
            node.start()
        wait_until(lambda: len(seen) > BLOCKS, "the last block", seconds=PATIENCE_S)
    finally:
        stop.set()
        writer.join()
        for node in nodes:
            node.kill()
    return seen, [str(block.hash) for block in made]


@pytest.mark.timeout(3 * PATIENCE_S)
def test_no_block_is_missed_or_repeated_over_kills_of_the_node(tmp_path):
    data = tmp_path / "data"
    stores = open_stores(StoreSettings(data=data, durable=False))
    node = Killed(data, tmp_path / "node.log")
    try:
        seen, made = _followed([node], stores, KILLS)
    finally:
        stores.close()
    assert seen == made


@pytest.mark.timeout(3 * PATIENCE_S)
def test_two_nodes_on_one_database_take_over_from_each_other(tmp_path, new_postgres_url):
    url = new_postgres_url()
    data = tmp_path / "data"
    stores = open_stores(StoreSettings(data=data, database_url=url))
    nodes = [Killed(data, tmp_path / f"{n}.log", "--database-url", url) for n in "ab"]
    try:
        seen, made = _followed(nodes, stores, KILLS)
    finally:
        stores.close()
    assert seen == made
