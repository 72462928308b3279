"""How fast a node hands out and takes in bytes, next to limits measured in the same run.

    python benchmarks/transfer.py [start small large put registry chain …]

    start     import and start of the service, memory at rest
    small     refs/head and blocks of 600 bytes, 16 connections, against an application on the
              same server that answers a constant, and against nginx
    large     GET of 100 MiB, against nginx
    put       PUT of 1, 10 and 100 MiB, against the store alone
    registry  GET and PUT of small and larger objects against docker-registry
    chain     push and pull of a chain of 100,000 blocks: seconds, memory of the service;
              requests of a pull and a push with nothing to do

What is not installed (nginx, docker-registry, wrk) is skipped with a line that names it.
Rates are the best of several rounds; processor time of the service is printed beside them,
because other work on the machine shows less in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from counting import counting

from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer.sync import pull, push
from odf_node.service.processes.server import NodeServer, server_config
from odf_node.service.settings import Settings
from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, DatasetKind, Seed, SetInfo, SourceState
from odf_protocol.multihash import Multihash
from odf_storage.stores.objects.local import LocalObjectStore
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import ObjectKey, ObjectKind, Visibility

ROOT = Path(__file__).parents[1]
MIB = 1 << 20
CONNECTIONS = 16
SECONDS = float(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = 3
BLOCKS = int(os.environ.get("BENCH_BLOCKS", "100000"))
ID = DatasetId(bytes([5] * 32))
TICK = os.sysconf("SC_CLK_TCK")
PYTHON = sys.executable
ODF_NODE = str(Path(PYTHON).with_name("odf-node"))


def note(text: str) -> None:
    print(text, flush=True)


def verdict(name: str, ratio: float, aim: float) -> None:
    note(f"  {name}: {ratio:.2f}x (aim {aim}x){'' if ratio >= aim else '  BELOW'}")


# --- processes ------------------------------------------------------------------------------


class Process:
    """A server in a process of its own."""

    def __init__(self, command: list[str], url: str, **more: object) -> None:
        self.url = url
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, **more)

    def wait(self, path: str = "/") -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                fetch(self.url + path)
                return
            time.sleep(0.01)
        self.log.seek(0)
        raise TimeoutError(f"{self.url} did not come up: {self.log.read()[-500:]!r}")

    def cpu(self) -> float:
        """Seconds of processor time so far, all processes of the group."""
        return sum(_ticks(pid) for pid in self._pids()) / TICK

    def memory(self, field: str = "VmRSS") -> float:
        """MiB of the first process; `VmHWM` is the peak."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+)", text)[1]) / 1024

    def _pids(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *map(int, children.read_text().split())]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def _ticks(pid: int) -> int:
    """Of a process and of those of its children that have ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15]))
    return 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch(url: str) -> bytes:
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request("GET", "/" + path)
        return connection.getresponse().read()
    finally:
        connection.close()


@contextlib.contextmanager
def stopped_at_end(process: Process, path: str = "/") -> Iterator[Process]:
    try:
        process.wait(path)
        yield process
    finally:
        process.stop()


def node(data: Path, port: int | None = None):
    port = port or free_port()
    command = [ODF_NODE, "serve", "--data", str(data)]
    command += ["--port", str(port), "--workers", "0"]
    return stopped_at_end(Process(command, f"http://127.0.0.1:{port}", cwd=ROOT), "/system/health")


def constant():
    """An application that answers 640 constant bytes, on the server and options of the node."""
    port = free_port()
    command = [PYTHON, __file__, "--constant", str(port)]
    return stopped_at_end(Process(command, f"http://127.0.0.1:{port}", cwd=ROOT))


def serve_constant(port: int) -> None:
    body, tag = b"x" * 640, b'"' + b"x" * 69 + b'"'
    headers = [(b"content-type", b"application/octet-stream"), (b"content-length", b"640")]
    headers += [(b"etag", tag), (b"accept-ranges", b"bytes")]

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": message["type"] + ".complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    NodeServer(server_config(app, Settings(port=port))).run()


def nginx(folder: Path):
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        note("  skipped nginx: it is not installed (apt-get install nginx-light)")
        return None
    port = free_port()
    scratch = Path(tempfile.mkdtemp())
    (scratch / "conf").write_text(
        f"daemon off; worker_processes 1; pid {scratch}/pid; error_log {scratch}/error;"
        "events { worker_connections 256; } http { access_log off; sendfile on; tcp_nopush on;"
        "keepalive_requests 10000000; etag on;"
        + "".join(
            f"{kind}_temp_path {scratch}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        + f"server {{ listen 127.0.0.1:{port}; root {folder}; }} }}"
    )
    user = ["-g", "user root;"] if os.geteuid() == 0 else []
    command = [program, "-c", str(scratch / "conf"), "-p", str(scratch), *user]
    return stopped_at_end(Process(command, f"http://127.0.0.1:{port}"))


def registry(data: Path):
    program = shutil.which("docker-registry") or shutil.which("registry")
    if program is None:
        note("  skipped docker-registry: it is not installed (apt-get install docker-registry)")
        return None
    port = free_port()
    config = data / "config.yml"
    config.write_text(
        "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"
        f"storage: {{filesystem: {{rootdirectory: {data}}}, maintenance: {{uploadpurging: "
        f"{{enabled: false}}}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n"
    )
    command = [program, "serve", str(config)]
    return stopped_at_end(Process(command, f"http://127.0.0.1:{port}"), "/v2/")


# --- load -----------------------------------------------------------------------------------


def rate(server: Process, paths: list[str]) -> tuple[float, float]:
    """Requests per second over 16 connections, and microseconds of processor time for each."""
    best, cost = 0.0, float("inf")
    for _ in range(ROUNDS):
        before, began = server.cpu(), time.perf_counter()
        count = (
            _with_wrk(server.url, paths) if shutil.which("wrk") else _with_sockets(server, paths)
        )
        took = time.perf_counter() - began
        best = max(best, count / took)
        cost = min(cost, (server.cpu() - before) / count * 1e6)
    return best, cost


def _with_wrk(url: str, paths: list[str]) -> int:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        listed = ",".join(f'"{path}"' for path in paths)
        script.write(
            f"local p={{{listed}}}\nlocal i=0\nfunction request() i=i%#p+1 "
            'return wrk.format("GET",p[i]) end\n'
        )
        script.flush()
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS:g}s", "-s", script.name, url]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in text:
        raise RuntimeError(text)
    return int(re.search(r"(\d+) requests in", text)[1])


def _with_sockets(server: Process, paths: list[str]) -> int:
    host, _, port = server.url.removeprefix("http://").partition(":")
    asked = [f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for path in paths]

    async def one(until: float) -> int:
        reader, writer = await asyncio.open_connection(host, int(port))
        count = 0
        while time.perf_counter() < until:
            writer.write(asked[count % len(asked)])
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            await reader.readexactly(int(length[1]))
            count += 1
        writer.close()
        return count

    async def all_of_them() -> int:
        until = time.perf_counter() + SECONDS
        return sum(await asyncio.gather(*(one(until) for _ in range(CONNECTIONS))))

    return asyncio.run(all_of_them())


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """Shortest of several times, in seconds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def download(url: str) -> int:
    """GET into one buffer that is used again; the number of bytes."""
    host, _, rest = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    buffer = bytearray(MIB)
    with socket.create_connection((name, int(port))) as link:
        link.sendall(f"GET /{rest} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        total = 0
        while got := link.recv_into(buffer):
            total += got
        return total


def put(url: str, content: bytes, headers: dict[str, str]) -> int:
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("PUT", "/" + path, body=content, headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


# --- a dataset to serve -----------------------------------------------------------------------


def small_chain(folder: Path) -> list[str]:
    """A dataset of 200 blocks of some 600 bytes in a folder; the hashes of those blocks."""
    seed = Seed(dataset_id=ID, dataset_kind=DatasetKind.Root)
    infos = [SetInfo(description="x" * 420 + str(number)) for number in range(200)]
    blocks, _ = author(EMPTY, [seed, *infos], system_time=Instant(0))
    return write_dataset(folder, blocks)[1:]


def write_dataset(folder: Path, blocks, *, durable: bool = False) -> list[str]:
    objects = FolderObjects(folder, durable=durable)
    objects.put_all(ObjectKind.BLOCK, ((block.hash, block.raw) for block in blocks))
    objects.write_ref("head", blocks[-1].hash)
    return [str(block.hash) for block in blocks]


def token(data: Path) -> str:
    command = [ODF_NODE, "token", "create", "--account", "kamu"]
    command += ["--data", str(data)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def publish(folder: Path, url: str, bearer: str, name: str = "foo"):
    target = Location.parse(f"odf+{url}/{name}")
    return push(Location.parse(str(folder)), target, token=bearer, visibility=Visibility.PUBLIC)


# --- what is measured -------------------------------------------------------------------------


def bench_start(work: Path) -> None:
    """Import, start until the first answer, memory at rest."""
    code = "from odf_node.service import main; from odf_node.service.processes import server"
    imports = best_of(3, lambda: subprocess.run([PYTHON, "-c", code], cwd=ROOT, check=True))
    bare = best_of(3, lambda: subprocess.run([PYTHON, "-c", ""], cwd=ROOT, check=True))
    times, _, memory = zip(*(started(work / "start") for _ in range(3)), strict=True)
    slowest = f"first {times[0]:.2f} s (makes the database), then {min(times[1:]):.2f} s"
    note(f"  import {imports - bare:.2f} s; start to first answer: {slowest} (aim < 2 s)")
    note(f"  memory at rest {max(memory):.0f} MiB (aim < 200 MiB)")


def started(data: Path) -> tuple[float, float, float]:
    """A start to the first answer, in seconds and in those of the processor; MiB at rest."""
    began = time.perf_counter()
    with node(data) as server:
        took, spent = time.perf_counter() - began, server.cpu()
        time.sleep(1)
        return took, spent, server.memory()


def small_rates(folder: Path, hashes: list[str], data: Path) -> dict[str, tuple[float, float]]:
    """Requests a second and microseconds of processor time each: first of an application that
    answers a constant, then of a node with that dataset."""
    with node(data) as server, constant() as limit:
        publish(folder, server.url, token(data))
        return {
            "constant answer": rate(limit, ["/"]),
            "refs/head": rate(server, ["/foo/refs/head"]),
            "600-byte blocks": rate(server, [f"/foo/blocks/{name}" for name in hashes]),
        }


def bench_small(work: Path) -> None:
    folder = work / "small"
    hashes = small_chain(folder)
    found = small_rates(folder, hashes, work / "small-node")
    for name, (each, cost) in found.items():
        note(f"  {name:19} {each:9.0f}/s  {cost:6.1f} us")
    (bare, bare_cost), *ours = found.values()
    for name, (each, cost) in zip([*found][1:], ours, strict=True):
        verdict(f"{name} by the clock", each / bare, 0.5)
        verdict(f"{name} by processor time", bare_cost / cost, 0.5)
    files = nginx(folder)
    if files is not None:
        with files as other:
            found, cost = rate(other, [f"/blocks/{name}" for name in hashes])
            note(f"  nginx, same blocks  {found:9.0f}/s  {cost:6.1f} us")


def bench_large(work: Path) -> None:
    content = os.urandom(100 * MIB)
    name, data = Multihash.of(content), work / "large-node"
    folder = work / "large"
    small_chain(folder)
    with node(data) as server:
        publish(folder, server.url, token(data))
        LocalObjectStore(data).put(ObjectKey(ID, ObjectKind.DATA, name), [content])
        mine = f"{server.url}/foo/data/{name}"
        (folder / "file").write_bytes(content)
        files = nginx(folder)
        ours = best_of(7, lambda: download(mine))
        note(f"  GET 100 MiB         {100 / ours:9.0f} MiB/s")
        if files is not None:
            with files as other:
                theirs = best_of(7, lambda: download(f"{other.url}/file"))
                ours = min(ours, best_of(7, lambda: download(mine)))
                note(f"  nginx               {100 / theirs:9.0f} MiB/s")
                verdict("GET 100 MiB", theirs / ours, 0.9)


def bench_put(work: Path) -> None:
    folder, data = work / "put", work / "put-node"
    small_chain(folder)
    with node(data) as server:
        bearer = {"authorization": f"Bearer {token(data)}"}
        publish(folder, server.url, bearer["authorization"][7:])
        store = LocalObjectStore(work / "put-store")
        for size in (1, 10, 100):
            contents = [os.urandom(size * MIB) for _ in range(5)]
            keys = [ObjectKey(ID, ObjectKind.DATA, Multihash.of(content)) for content in contents]

            def alone(keys=keys, contents=contents):
                store.put(keys.pop(), [contents.pop()])

            def served(keys=[*keys], contents=[*contents]):  # noqa: B006 - emptied on purpose
                key, content = keys.pop(), contents.pop()
                status = put(f"{server.url}/foo/data/{key.hash}", content, bearer)
                assert status == 200, status

            direct, through = best_of(5, alone), best_of(5, served)
            hashing = best_of(3, partial(hashlib.sha3_256, bytes(size * MIB)))
            note(
                f"  PUT {size:3} MiB         {size / through:9.0f} MiB/s, store alone "
                f"{size / direct:.0f}, SHA3 alone {size / hashing:.0f}"
            )
            verdict(f"PUT {size} MiB against the store", direct / through, 0.8)


def bench_registry(work: Path) -> None:
    place = work / "registry"
    place.mkdir()
    other = registry(place)
    if other is None:
        return
    folder, data = work / "registry-chain", work / "registry-node"
    small_chain(folder)
    with other as theirs, node(data) as ours:
        bearer = token(data)
        publish(folder, ours.url, bearer)
        mine = {"authorization": f"Bearer {bearer}"}
        small = [os.urandom(640) for _ in range(50)]
        paths = [_registry_put(theirs.url, content) for content in small]
        own = [f"/foo/data/{Multihash.of(content)}" for content in small]
        for path, content in zip(own, small, strict=True):
            put(ours.url + path, content, mine)
        there, _ = rate(theirs, paths)
        here, _ = rate(ours, own)
        note(f"  GET 640 bytes       {here:9.0f}/s, docker-registry {there:.0f}/s")
        verdict("GET of small blobs", here / there, 8)
        for size, times in ((1, 40), (10, 12), (100, 8)):
            took, taken = list[float](), list[float]()
            for _ in range(times):  # in turn: what else the disk does meanwhile meets both
                content = os.urandom(size * MIB)
                target = f"{ours.url}/foo/data/{Multihash.of(content)}"
                digest = hashlib.sha256(content).hexdigest()
                took.append(_seconds(lambda: _registry_put(theirs.url, content, digest)))  # noqa: B023
                taken.append(_seconds(lambda: put(target, content, mine)))  # noqa: B023
            theirs_s, ours_s = statistics.median(took), statistics.median(taken)
            note(
                f"  PUT {size:3} MiB         {size / ours_s:9.0f} MiB/s, registry "
                f"{size / theirs_s:.0f}, medians of {times}"
            )
            verdict(f"PUT {size} MiB", theirs_s / ours_s, 1.0)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _registry_put(url: str, content: bytes, digest: str | None = None) -> str:
    """The shortest way to put a blob: ask for an upload, put everything. The path of the blob."""
    digest = digest or hashlib.sha256(content).hexdigest()
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("POST", "/v2/foo/blobs/uploads/")
    answer = connection.getresponse()
    answer.read()
    place = answer.headers["Location"].removeprefix(url)
    joint = "&" if "?" in place else "?"
    headers = {"Content-Type": "application/octet-stream"}
    connection.request("PUT", f"{place}{joint}digest=sha256:{digest}", content, headers)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 201, answer.status
    connection.close()
    return f"/v2/foo/blobs/sha256:{digest}"


def long_chain(folder: Path):
    """Data events that name no objects: watermarks, and where the source is."""
    seed = Seed(dataset_id=ID, dataset_kind=DatasetKind.Root)
    marks = [
        AddData(
            new_watermark=Instant(number * 10**9),
            new_source_state=SourceState(
                source_name="readings", kind="odf/last-modified", value=f"{number:0100}"
            ),
        )
        for number in range(1, BLOCKS)
    ]
    blocks, _ = author(EMPTY, [seed, *marks], system_time=Instant(0))
    write_dataset(folder, blocks)
    return blocks


def bench_chain(work: Path) -> None:
    folder, data = work / "chain", work / "chain-node"
    blocks = long_chain(folder)
    port = free_port()
    files = best_of(1, lambda: write_dataset(work / "files", blocks))
    floor = best_of(1, lambda: write_dataset(work / "synced", blocks, durable=True))
    size = sum(len(block.raw) for block in blocks) / MIB
    note(
        f"  {BLOCKS} blocks, {size:.0f} MiB; as files: {files:.1f} s, synced {floor:.1f} s: "
        "no push or pull takes less"
    )
    with node(data, port) as server:
        bearer = token(data)
        idle = server.cpu()
        took = best_of(1, lambda: publish(folder, server.url, bearer))
        peak = server.memory("VmHWM")
        used = server.cpu() - idle
        note(
            f"  push {took:.1f} s (aim < 20 s; {took / floor:.1f} x the files), "
            f"service {used:.1f} s of processor, peak {peak:.0f} MiB (aim < 300 MiB)"
        )
    for name, limit in (("base64 (between nodes)", "compact"), ("numbers (as the reference)", "")):
        with node(data, port) as server:
            target = work / f"pulled-{limit}"
            took = _pull_time(server, target, compact=bool(limit))
            note(
                f"  pull in {name}: {took:.1f} s (aim < 10 s; {took / floor:.1f} x the files), "
                f"service {server.cpu():.1f} s of "
                f"processor with its start, peak {server.memory('VmHWM'):.0f} MiB (aim < 300 MiB)"
            )
            if limit:
                continue
            with counting(server.url) as counted:
                here, there = Location.parse(str(target)), Location.parse(f"odf+{counted.url}/foo")
                nothing = best_of(3, partial(pull, there, here))
                note(f"  pull with nothing to do: {nothing * 1000:.0f} ms, one request: refs/head")
                assert len(counted.requests) == 3
                again = best_of(1, lambda: publish(folder, counted.url, bearer))
                assert len(counted.requests) == 4
                note(f"  push with nothing to do: {again * 1000:.0f} ms, one request: refs/head")


def _pull_time(server: Process, target: Path, *, compact: bool) -> float:
    import odf_node.client.transfer.socket as client_socket

    header = client_socket.PAYLOAD_HEADER
    client_socket.PAYLOAD_HEADER = header if compact else "x-unused"
    try:
        location = Location.parse(f"odf+{server.url}/foo")
        return best_of(1, lambda: pull(location, Location.parse(str(target))))
    finally:
        client_socket.PAYLOAD_HEADER = header


BENCHES: dict[str, Callable[[Path], None]] = {
    "start": bench_start,
    "small": bench_small,
    "large": bench_large,
    "put": bench_put,
    "registry": bench_registry,
    "chain": bench_chain,
}


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--constant"]:
        serve_constant(int(arguments[1]))
        return
    for name in arguments or BENCHES:
        note(name)
        with tempfile.TemporaryDirectory() as work:
            BENCHES[name](Path(work))


if __name__ == "__main__":
    main(sys.argv[1:])
