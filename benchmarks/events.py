"""A thousand listeners on one node: from the commit of a block to the last of them, and memory.

The node runs as a process on SQLite. Blocks are committed by this process, as a worker does it;
listeners are plain sockets of one event loop, in this process too, so that reading a thousand
answers is part of what is measured. Next to it, in the same run, a bare server of asyncio that
writes as many bytes to as many sockets when it is told to.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from chain_maker import entry, linked, long_chain
from nodes import served

from odf_protocol.metadata.events import SetInfo
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores

LISTENERS, MOVES, WARM_UP, PAUSE_S = 1000, 30, 3, 0.5
KIB = 1024


def memory(process: int) -> int:
    """Resident bytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * KIB for line in lines if line.startswith("VmRSS"))


class Arrivals:
    """When each listener read a text."""

    def __init__(self) -> None:
        self.wanted, self.times = b"", list[float]()
        self.all_here = asyncio.Event()

    def expect(self, wanted: bytes) -> None:
        self.wanted, self.times = wanted, []
        self.all_here.clear()

    async def listen(self, port: int, request: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64 * KIB)
        writer.write(request)
        try:
            while line := await reader.readline():
                if self.wanted and self.wanted in line:
                    self.times.append(time.perf_counter())
                    if len(self.times) == LISTENERS:
                        self.all_here.set()
        finally:
            writer.close()


async def bare(message: bytes) -> list[float]:
    """Seconds until the last listener of a server that only writes."""
    writers: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.read()

    server = await asyncio.start_server(take, "127.0.0.1", 0, backlog=LISTENERS)
    port = server.sockets[0].getsockname()[1]
    arrivals, seconds = Arrivals(), []
    listening = [asyncio.create_task(arrivals.listen(port, b"x")) for _ in range(LISTENERS)]
    while len(writers) < LISTENERS:
        await asyncio.sleep(0.05)
    for _ in range(MOVES):
        arrivals.expect(b"block")
        began = time.perf_counter()
        for writer in writers:
            writer.write(message)
        await arrivals.all_here.wait()
        seconds.append(max(arrivals.times) - began)
    for each in listening:
        each.cancel()
    await asyncio.gather(*listening, return_exceptions=True)
    server.close()
    return seconds


async def measured(stores, created, seed, node) -> tuple[list[float], list[float], int]:
    """Seconds from the commit to the last and to the middle listener; bytes a listener."""
    port = int(node.url.rpartition(":")[2])
    request = b"GET /listened/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    before = memory(node.process.pid)
    arrivals = Arrivals()
    arrivals.expect(b"event: position")
    listening = []
    for _ in range(LISTENERS):
        listening.append(asyncio.create_task(arrivals.listen(port, request)))
        await asyncio.sleep(0.002)
    await asyncio.wait_for(arrivals.all_here.wait(), 120)
    each = (memory(node.process.pid) - before) // LISTENERS
    last, middle, head = [], [], seed
    for number in range(WARM_UP + MOVES):
        block = linked(head, SetInfo(description=f"number {number}"))
        arrivals.expect(f"id: {block.hash}".encode())
        began = time.perf_counter()
        stores.refs.move(created.id, expected=head.hash, new=block.hash, blocks=[block])
        await asyncio.wait_for(arrivals.all_here.wait(), 60)
        if number >= WARM_UP:
            last.append(max(arrivals.times) - began)
            middle.append(statistics.median(arrivals.times) - began)
        head = block
        await asyncio.sleep(PAUSE_S)
    for task in listening:
        task.cancel()
    await asyncio.gather(*listening, return_exceptions=True)
    return last, middle, each


def main() -> None:
    message = b"id: " + b"x" * 72 + b"\nevent: block\ndata: " + b"x" * 400 + b"\n\n"
    limit = statistics.median(asyncio.run(bare(message)))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        stores = open_stores(StoreSettings(data=data))
        created = entry("kamu/listened")
        seed = long_chain(created.id, 1)[0]
        stores.create_dataset(created, [seed])
        env = {
            "ODF_NODE_SHARE": "1",
            "ODF_NODE_ANONYMOUS_READS": "all",
        }
        with served(data, "--workers", "0", **env) as node:
            last, middle, each = asyncio.run(measured(stores, created, seed, node))
        stores.close()
    p50, p99 = statistics.median(last), max(last)  # of 30 the worst
    print(f"{LISTENERS} listeners, {MOVES} blocks")
    print(f"  to the middle listener   p50 {1000 * statistics.median(middle):7.1f} ms")
    print(f"  to the last listener     p50 {1000 * p50:7.1f} ms   p99 {1000 * p99:7.1f} ms")
    print(f"  bare sockets, last       p50 {1000 * limit:7.1f} ms   ratio {p50 / limit:5.1f}")
    print(f"  memory of the node       {each / KIB:.0f} KiB a listener")


if __name__ == "__main__":
    main()
