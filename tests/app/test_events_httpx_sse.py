"""News as `httpx-sse` reads them, with its default time-outs, over a network that breaks."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from cut_relay import CutRelay, cut_relay
from httpx_sse import connect_sse
from servers import free_port, wait_until
from service import Chain, Service, described, seeded, serving

from odf_protocol.identity import DatasetRef

BLOCKS, CUTS = 100, 20
RESTARTS = (33, 66)
"""Numbers of the blocks after which the node is started again."""


class Follower:
    """The loop that a program of this library has: it goes on behind the last event it saw."""

    def __init__(self, relay: CutRelay) -> None:
        self._url = f"{relay.url}/followed/events"
        self._ends = threading.Event()
        self.blocks: list[str] = []
        self.empty: list[Any] = []
        self.thread = threading.Thread(target=self._follow, daemon=True)

    def _follow(self) -> None:
        last = "beginning"
        while not self._ends.is_set():
            try:
                with (
                    httpx.Client() as http,
                    connect_sse(http, "GET", self._url, headers={"last-event-id": last}) as source,
                ):
                    for event in source.iter_sse():
                        if not event.data:
                            self.empty.append(event)
                        if event.event == "block":
                            self.blocks.append(json.loads(event.data)["block"])
                        last = event.id or last
            except httpx.HTTPError:
                self._ends.wait(0.02)  # a node that is started again takes a moment

    def end(self, relay: CutRelay) -> None:
        self._ends.set()
        relay.cut()
        self.thread.join(90)


def commit(service: Service, chain: Chain) -> None:
    before = chain.head
    chain.add(described(f"number {len(chain.blocks)}"))
    dataset = service.node.stores.dataset(DatasetRef(id=chain.id))
    dataset.commit([chain.blocks[-1]], expected=before)


def test_each_block_comes_once_and_in_order_through_cuts_and_restarts(tmp_path: Path) -> None:
    port, data = free_port(), tmp_path / "node"
    chain = seeded()
    with cut_relay(port) as relay, ExitStack() as last:
        running = ExitStack()
        service = running.enter_context(serving(data, port=port))
        service.keep(chain, "kamu/followed")
        follower = Follower(relay)
        follower.thread.start()
        last.callback(lambda: follower.end(relay))
        for number in range(1, BLOCKS + 1):
            if number % (BLOCKS // CUTS) == 0:
                wait_until(lambda: relay.is_used, "the client")
            commit(service, chain)
            if number % (BLOCKS // CUTS) == 0:
                wait_until(relay.cut, "a connection to cut")
            if number in RESTARTS:
                running.close()
                service = running.enter_context(serving(data, port=port))
        last.callback(running.close)
        expected = [str(block.hash) for block in chain.blocks]
        wait_until(lambda: len(follower.blocks) >= len(expected), "all blocks")
        assert follower.blocks == expected
        assert follower.empty == []
