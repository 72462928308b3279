"""The story of a dataset: created, posted to, pulled, verified, pushed on, derived from.

Plays on two real nodes with the `odf-node` command, as a person would. The first node keeps
running at the end unless DEMO_KEEP_RUNNING=0. Everything lives below `.odf-node/demo`.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PLACE = Path(os.environ.get("DEMO_DIR", HERE.parent / ".odf-node" / "demo"))
COMMAND = str(Path(sys.executable).parent / "odf-node")
KEEP_RUNNING = os.environ.get("DEMO_KEEP_RUNNING", "1") != "0"
PARTS = ((0, 10_000), (8_000, 20_000), (18_000, 26_115))
"""Rows of the three posts; neighbours share 2,000 rows."""
DAMAGED = 6
"""Exit code of `odf-node` for bytes that are not what their hash says."""


@dataclass
class Node:
    """A node of the story, as a process."""

    name: str
    data: Path
    url: str
    process: subprocess.Popen[bytes]
    token: str = ""

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=30)


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def odf(*words: str, token: str = "", expect: int = 0, quiet: bool = False) -> str:
    """Run one `odf-node` command, show it, and insist on its exit code. Returns its output."""
    shown = " ".join(word if " " not in word else repr(word) for word in words)
    if not quiet:
        print(f"$ odf-node {shown}", flush=True)
    env = {**os.environ, **({"ODF_NODE_TOKEN": token} if token else {})}
    done = subprocess.run(
        [COMMAND, *words], env=env, capture_output=True, text=True, cwd=PLACE, check=False
    )
    if done.returncode != expect:
        raise SystemExit(
            f"odf-node {shown}: exit code {done.returncode}, expected {expect}\n"
            f"{done.stdout}{done.stderr}"
        )
    return done.stdout if done.stdout.strip() else done.stderr


def start_node(name: str, port: int, *, workers: int) -> Node:
    """Serve a node from an empty folder and wait until it answers."""
    data = PLACE / name
    words = ["serve", "--host", "127.0.0.1", "--port", str(port), "--data", str(data)]
    with (PLACE / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [COMMAND, *words, "--workers", str(workers)],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    node = Node(name, data, f"http://127.0.0.1:{port}", process)
    started = time.monotonic()
    while not answers(node.url):
        if process.poll() is not None or time.monotonic() - started > 60:
            raise SystemExit(f"node {name} did not start; see {PLACE / f'{name}.log'}")
        time.sleep(0.05)
    print(f"node {name} answers at {node.url} after {time.monotonic() - started:.1f} s")
    node.token = odf(
        "token", "create", "--account", "kamu", "--data", str(data), "--json", quiet=True
    )
    node.token = json.loads(node.token)["token"]
    return node


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/system/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def free_port(wanted: int) -> int:
    """The wanted port if nobody has it, else any free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SystemExit("no free port")


def write_parts() -> list[Path]:
    """The weather as three overlapping CSV files."""
    text = gzip.decompress((HERE / "weather" / "weather.csv.gz").read_bytes()).decode()
    header, *rows = text.splitlines(keepends=True)
    paths = []
    for number, (start, end) in enumerate(PARTS, 1):
        path = PLACE / f"part{number}.csv"
        path.write_text(header + "".join(rows[start:end]))
        paths.append(path)
    return paths


def files_of(folder: Path) -> dict[str, bytes]:
    """Everything of a dataset folder that belongs to the dataset: name → content."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for part in ("refs", "blocks", "data", "checkpoints")
        for path in sorted((folder / part).glob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def stored(node: Node) -> Path:
    """The folder in which a node keeps its only dataset."""
    (folder,) = (node.data / "datasets").iterdir()
    return folder


def insist_identical(ours: Path, theirs: Path, what: str) -> None:
    left, right = files_of(ours), files_of(theirs)
    if left != right:
        differing = sorted(set(left) ^ set(right) | {k for k in left if left[k] != right.get(k)})
        raise SystemExit(f"{what}: not identical: {differing}")
    print(f"identical, {len(left)} files, {what}:")
    for name in left:
        print(f"  {name}")


def post_parts(node: Node, dataset: str) -> None:
    expected_start = 0
    for path, (start, end) in zip(write_parts(), PARTS, strict=True):
        began = time.monotonic()
        receipt = json.loads(odf("ingest", path.name, dataset, "--json", token=node.token))
        print(
            f"  {receipt['rowsAdded']} rows added, {receipt['rowsKnown']} already known, "
            f"offsets {receipt['offsetStart']} to {receipt['offsetEnd']}, "
            f"block {receipt['head']} ({time.monotonic() - began:.1f} s)"
        )
        known = max(0, expected_start - start)
        facts = (receipt["rowsKnown"], receipt["rowsAdded"], receipt["offsetStart"])
        if facts != (known, end - start - known, expected_start):
            raise SystemExit(f"the receipt does not fit what was posted: {receipt}")
        expected_start = end


def flip_a_byte(folder: Path) -> Path:
    """Damage one stored data slice in its middle."""
    path = max((folder / "data").iterdir(), key=lambda slice_: slice_.stat().st_size)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)
    return path


def publish(first: Node) -> tuple[str, str]:
    """Create the dataset and fill it; its simple and its smart URL."""
    simple = f"{first.url}/weather"
    smart = f"odf+{simple}"
    say("A dataset is created from a manifest")
    manifest = str(HERE / "weather" / "weather.yaml")
    words = ["dataset", "create", manifest, "--node", first.url, "--visibility", "public"]
    print(odf(*words, token=first.token))
    say("26,115 rows of hourly weather are posted in three overlapping parts")
    post_parts(first, simple)
    say("Every step is a block of the chain")
    print(odf("log", simple))
    return simple, smart


def exchange(first: Node, second: Node, simple: str, smart: str) -> str:
    """Pull by both protocols, push to the second node, pull from there; its URL."""
    say("Pulled with the smart protocol, and with the simple one")
    odf("pull", smart, "by-smart")
    odf("pull", simple, "by-simple")
    insist_identical(PLACE / "by-smart", stored(first), "smart pull and the node's own objects")
    insist_identical(PLACE / "by-simple", stored(first), "simple pull and the node's own objects")
    say("Verified: every block, every file, every row")
    print(odf("verify", "by-smart"))
    say("Pushed to a second node, and pulled from there")
    copy = f"{second.url}/weather"
    odf("push", "by-smart", f"odf+{copy}", "--visibility", "public", token=second.token)
    odf("pull", f"odf+{copy}", "from-second")
    insist_identical(PLACE / "from-second", stored(first), "the copy of the copy and the original")
    return copy


def derive(first: Node) -> None:
    """A derivative is defined, computed, and follows when more rows are posted."""
    say("Another dataset is derived from it by SQL: the coldest and warmest hour of each day")
    manifest = str(HERE / "weather" / "daily.yaml")
    words = ["dataset", "create", manifest, "--node", first.url, "--visibility", "public"]
    print(odf(*words, token=first.token))
    daily = f"{first.url}/weather-daily"
    before = up_to_date(daily)
    print(f"{before['records']} days of three airports, block {before['head']}")
    say("One more hour is posted; the derivative follows by itself")
    hour = "EWR,2014,1,8,1,20.0,10.0,60.0,270,10.0,NA,0,1020,10,2014-01-08T06:00:00Z\n"
    text = gzip.decompress((HERE / "weather" / "weather.csv.gz").read_bytes()).decode()
    path = PLACE / "one-more.csv"
    path.write_text(text[: text.index("\n") + 1] + hour)
    odf("ingest", path.name, f"{first.url}/weather", token=first.token)
    after = up_to_date(daily, behind=before["head"])
    print(f"{after['records'] - before['records']} more days came out, block {after['head']}")
    print(odf("log", daily, "--limit", "1"))


def up_to_date(dataset: str, *, behind: str | None = None) -> dict[str, Any]:
    """The description of a derivative once it has read all there is, on another head than that."""
    started = time.monotonic()
    while True:
        with urllib.request.urlopen(dataset, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        status = found["derivation"]["status"]
        if status == "up-to-date" and found["head"] != behind:
            print(f"up to date after {time.monotonic() - started:.1f} s")
            return found
        if status == "paused" or time.monotonic() - started > 180:
            raise SystemExit(f"{dataset} does not follow: {found['derivation']}")
        time.sleep(0.2)


def forge(second: Node, copy: str) -> None:
    """One flipped bit at the second node: found by verification, refused by a pull."""
    path = flip_a_byte(stored(second))
    say("One bit of one slice is flipped at the second node")
    print(path.name)
    report = odf("verify", copy, expect=DAMAGED)
    print(report)
    if path.name not in report:
        raise SystemExit("verify did not name the damaged file")
    print(odf("pull", f"odf+{copy}", "from-forged", expect=DAMAGED))
    if (PLACE / "from-forged" / "refs" / "head").exists():
        raise SystemExit("a damaged dataset became visible")
    print("the damaged slice was refused, and nothing became visible")


def prepare_place() -> None:
    """An empty folder; a node left from an earlier play is stopped."""
    pid_file = PLACE / "node.pid"
    if pid_file.exists():
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(pid_file.read_text()), signal.SIGTERM)
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)


def main() -> None:
    prepare_place()
    nodes: list[Node] = []
    kept = False
    try:
        say("Two nodes start, each from an empty folder")
        nodes.append(start_node("first", free_port(8080), workers=1))
        nodes.append(start_node("second", free_port(8081), workers=0))
        first, second = nodes
        simple, smart = publish(first)
        forge(second, exchange(first, second, simple, smart))
        derive(first)
        say("Done: what was posted is what everybody holds, and what was forged was found")
        kept = KEEP_RUNNING
        if kept:
            (PLACE / "node.pid").write_text(str(first.process.pid))
            print(f"The first node keeps running: {first.url}/docs, {simple}/tail?limit=3")
            print(f"End it with: kill {first.process.pid}")
    finally:
        for node in nodes[1 if kept else 0 :]:
            node.stop()


if __name__ == "__main__":
    main()
