"""The service answers beside whatever strangers send; a loop that stands still is noticed."""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dripping import dripping
from nodes import RunningNode, served
from servers import wait_until
from service import NOON, SCHEMA, seeded, serving

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.metadata.events import (
    AttachmentEmbedded,
    AttachmentsEmbedded,
    DatasetKind,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf_storage.stores.ports.values import DatasetEntry, Visibility

HEALTHY_S = 0.05
BUSY = 5
"""On a busy machine: how much slower than beside ordinary queries the service may be."""
ATTEMPTS = 3
ASKED_FOR_S = 3.0
PAUSE_S = 0.02
"""Between two requests of a sender. Without it quick answers take all of a small machine, which
then stands still by itself for a tenth of a second at a time."""
BLANKS = "select 1," + " " * 60_000 + "!"
COLUMNS = ", ".join(f"population + {n} as c{n}" for n in range(400))


def _prepared(data: Path) -> str:
    """Make a dataset with a README, and a derivative of many columns; return a token."""
    with serving(data) as service:
        items = (AttachmentEmbedded(path="README.md", content="![" * 24_000),)
        event = SetAttachments(attachments=AttachmentsEmbedded(items=items))
        root = service.keep(seeded().add(event, SetDataSchema(schema=SCHEMA)), "kamu/root")
        made = DatasetId(b"derivative".ljust(32, b"."))
        inputs = (TransformInput(dataset_ref=DatasetRef(id=root.id), alias="root"),)
        steps = (SqlQueryStep(query=f"select event_time, {COLUMNS} from root"),)
        transform = TransformSql(engine="spark", queries=steps)
        events: list[Any] = [
            Seed(dataset_id=made, dataset_kind=DatasetKind.Derivative),
            SetTransform(inputs=inputs, transform=transform),
            SetDataSchema(schema=SCHEMA),
        ]
        blocks, _ = author(EMPTY, events, system_time=NOON)
        alias = DatasetAlias.parse("kamu/derived")
        entry = DatasetEntry(made, alias, DatasetKind.Derivative, Visibility.PUBLIC, NOON)
        service.node.stores.create_dataset(entry, blocks)
        service.node.stores.registry.set_inputs(made, [root.id])
        return service.token()


@pytest.fixture(scope="module")
def node(tmp_path_factory: Any) -> Iterator[tuple[RunningNode, str]]:
    data = tmp_path_factory.mktemp("standing") / "data"
    token = _prepared(data)
    env = {
        "ODF_NODE_WORKERS": "0",
        "ODF_NODE_OUTGOING_S": "3",
        "ODF_NODE_MIRROR_NETWORKS": '["127.0.0.0/8"]',
    }
    with served(data, **env) as running:
        yield running, token


HEALTH = """
import json, sys, time
import httpx
took, until = [], time.monotonic() + float(sys.argv[2])
with httpx.Client(base_url=sys.argv[1], timeout=60) as client:
    while time.monotonic() < until or len(took) < 60:
        began = time.monotonic()
        client.get("/system/health").raise_for_status()
        took.append(time.monotonic() - began)
        time.sleep(0.01)
print(json.dumps(took))
"""


def _health(url: str) -> list[float]:
    """Ask for the health again and again; return the seconds of each answer. It does so in a
    process of its own: the threads that send would hold back a measuring one by themselves."""
    asking = [sys.executable, "-c", HEALTH, url, str(ASKED_FOR_S)]
    took: list[float] = json.loads(subprocess.run(asking, check=True, capture_output=True).stdout)
    return took


def _sources(port: int) -> dict[str, Any]:
    """Requests by name: functions of a client that has a token, and one that has none."""
    ddl = {"name": "x", "kind": "Root", "metadata": []}
    source = {
        "kind": "AddPushSource",
        "sourceName": "a",
        "read": {"kind": "Csv", "schema": ["a STRING " + "/* " * 20_000]},
        "merge": {"kind": "Append"},
    }
    snapshot = {"kind": "DatasetSnapshot", "version": 1, "content": {**ddl, "metadata": [source]}}
    content = {"name": "mirror", "remote": f"http://127.0.0.1:{port}/a/b/"}
    mirror = {"kind": "DatasetMirror", "version": 1, "content": content}
    html = {"accept": "text/html"}
    return {
        "ordinary": lambda owner, anon: anon.post("/query", json={"query": "select 1"}),
        "blanks": lambda owner, anon: anon.post("/query", json={"query": BLANKS}),
        "megabytes": lambda owner, anon: anon.post("/query", json={"query": " " * 1_500_000}),
        "link": lambda owner, anon: anon.get("/query", params={"query": BLANKS[:4_000]}),
        "form": lambda owner, anon: anon.get(
            "/root", params={"query": BLANKS[:4_000]}, headers=html
        ),
        "page": lambda owner, anon: anon.get("/root", headers=html),
        "lineage": lambda owner, anon: anon.get("/derived/lineage", params={"columns": "true"}),
        "ddl": lambda owner, anon: owner.post("/datasets", content=json.dumps(snapshot)),
        "mirror": lambda owner, anon: owner.post("/datasets", content=json.dumps(mirror)),
    }


def _beside(running: RunningNode, token: str, ask: Any) -> float:
    """Return the seconds of the slowest hundredth of answers while two clients ask."""
    stopped = threading.Event()
    bearer = {"authorization": f"Bearer {token}"}

    def send() -> None:
        with (
            httpx.Client(base_url=running.url, headers=bearer, timeout=120) as owner,
            httpx.Client(base_url=running.url, timeout=120) as anon,
        ):
            while not stopped.wait(PAUSE_S):
                ask(owner, anon)

    senders = [threading.Thread(target=send) for _ in range(2)]
    for each in senders:
        each.start()
    try:
        took = _health(running.url)
    finally:
        stopped.set()
    for each in senders:
        each.join()
    return statistics.quantiles(took, n=100)[98]


@pytest.mark.e2e
@pytest.mark.parametrize(
    "name", ["blanks", "megabytes", "link", "form", "page", "lineage", "ddl", "mirror"]
)
def test_health_is_answered_beside_what_strangers_send(node: Any, name: str):
    """Each costs the service no more than an ordinary query does, up to chance."""
    with dripping() as port:
        sources = _sources(port)
        for _ in range(ATTEMPTS):
            hostile = _beside(*node, sources[name])
            if hostile < HEALTHY_S:
                return
            ordinary = _beside(*node, sources["ordinary"])
            if hostile < BUSY * ordinary:
                return
    assert hostile < max(HEALTHY_S, BUSY * ordinary)


STUCK = """
import asyncio, logging, re, sys, time
from odf_node.service.observe.metrics import Counters
from odf_node.service.processes.watchdog import Watchdog
logging.basicConfig(level="WARNING")
counters = Counters()

def in_python():
    until = time.monotonic() + 4
    while time.monotonic() < until:
        pass

def in_c():
    re.fullmatch("(x|xx)*y", "x" * 60)

async def main():
    watchdog = Watchdog(counters, ends_after_s=float(sys.argv[2]))
    watchdog.start()
    await asyncio.sleep(0.1)
    globals()[sys.argv[1]]()
    await asyncio.sleep(1)
    watchdog.stop()
    print(counters.stalls, counters.longest_stall_s > 2)

asyncio.run(main())
"""


def _stuck(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", STUCK, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_loop_that_stood_still_is_counted_and_its_place_is_logged():
    ended = _stuck("in_python", "0")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["1", "True"]
    assert "in in_python" in ended.stderr
    assert "the event loop stood still for" in ended.stderr


def test_a_process_that_holds_the_interpreter_ends_with_its_stack():
    began = time.monotonic()
    ended = _stuck("in_c", "2")
    assert ended.returncode == -signal.SIGALRM
    assert "in in_c" in ended.stderr
    assert time.monotonic() - began < 60  # the expression alone takes years


@pytest.mark.e2e
def test_a_service_that_stands_still_ends_and_serves_again_when_started(tmp_path: Path):
    """It is stopped by a signal for longer than its setting, and may then go on."""
    data = tmp_path / "data"
    with served(data, ODF_NODE_STALL_ENDS_S="2", ODF_NODE_WORKERS="0") as running:
        running.process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        running.process.send_signal(signal.SIGCONT)
        wait_until(lambda: running.process.poll() is not None, "the end")
        assert running.process.returncode == -signal.SIGALRM
    with served(data, ODF_NODE_WORKERS="0") as running:
        assert httpx.get(f"{running.url}/system/health").status_code == 200
