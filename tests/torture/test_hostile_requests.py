"""Thousands of hostile requests over every route and door, beside an account that works.

A sample of a seed in each run; `ODF_TEST_HOSTILE_REQUESTS=2000` sends all, and
`ODF_TEST_HOSTILE_SEED` chooses others.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from flight_calls import call_all
from hostile import MANIFEST, ROW, prepare
from nodes import RunningNode, served
from requests_made import CALLERS, SHAPES, Asked, Maker, Names, routes
from requests_sent import Outcome, bytes_of, send_all
from requests_twisted import FRAMINGS, OF_BODIES, TWISTS, twisted
from servers import free_port, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]
COUNT = int(os.environ.get("ODF_TEST_HOSTILE_REQUESTS", "150"))
SEED = int(os.environ.get("ODF_TEST_HOSTILE_SEED", "1"))
ALL = 2000
"""From so many on, the waits of the honest account are judged, too."""
AT_ONCE = 8
FLIGHT_AT_ONCE = 3
HONEST_S = 2.0
"""What the honest account may wait, a hundredth of its requests apart."""
BUSY = 5
"""On a busy machine: how many times what it waits alone."""
MAX_MB = 400
MORE_HELD = 40
"""Descriptors and threads that a service may have beyond those before: pools fill up, once."""
CRASH = ("Traceback (most recent", "request crashed", "a tool crashed", "Task exception was never")
ENV = {
    "ODF_WORKER_WARM_UP": "false",
    "ODF_NODE_INGEST_WAIT_S": "3",
    "ODF_NODE_QUERY_TIME_S": "10",
    "ODF_NODE_CLIENT_IDLE_S": "15",
    "ODF_NODE_MAX_WAITING_DATASET": "1000000",
    "ODF_NODE_MAX_WAITING_ACCOUNT": "1000000",
    "ODF_NODE_MAX_WAITING_NODE": "1000000",
}
"""Short waits, so that many requests take few minutes; and an honest account that posts without a
pause."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: Any) -> Iterator[tuple[RunningNode, str, Names, dict[str, str | None]]]:
    data = tmp_path_factory.mktemp("hostile") / "node"
    env = {**ENV, "ODF_NODE_FLIGHT_PORT": str(free_port())}
    with served(data, "--tenancy", "multi", **env) as node:
        hostile, honest = prepare(node, wide_rows=20)
        editor = node.token("carol")
        with node.http(hostile.token) as bob:
            for name in ("secret", "ends"):
                made = bob.post("/datasets", content=MANIFEST.format(name=name, read="NdJson"))
                made.raise_for_status()
            for each in ("rows", "wide"):
                role = bob.put(f"/bob/{each}/access/carol", json={"role": "Editor"})
                role.raise_for_status()
            tokens = {
                "anonymous": None,
                "read": node.token("bob", "--scope", "read"),
                "dataset": node.token("bob", "--dataset", "bob/rows"),
                "editor": editor,
                "owner": hostile.token,
                "expired": node.token("bob", "--expires", "1s"),
            }
            yield node, honest, _names(bob), tokens


def _names(client: httpx.Client) -> Names:
    def files() -> list[dict[str, Any]]:
        return list(client.get("/bob/wide/files").json()["files"])

    wait_until(lambda: bool(files()), "rows of the hostile account")
    head = client.get("/bob/wide/refs/head").text
    posted = client.post("/bob/rows/ingest", content=ROW, headers={"prefer": "respond-async"})
    job = str(posted.json().get("job", posted.json().get("id", "1")))
    return Names(
        ("bob/rows", "bob/wide", "bob/secret", "alice/rows"),
        "bob/ends",
        {
            "hash": (head, str(files()[0]["url"]).rpartition("/")[2]),
            "ref": ("head",),
            "job": (job,),
            "id": ("1", job),
            "name": ("bob", "carol", "n.json"),
            "share": ("bob",),
            "schema": ("default",),
            "table": ("rows", "wide"),
            "prefix": ("bob",),
            "namespace": ("default", "bob"),
            "kind": ("DatasetSnapshot",),
            "column": ("city", "n"),
            "format": ("csv", "parquet", "json", "txt"),
            "queryDialect": ("SqlDataFusion", "SqlSpark"),
            "verb": ("ListRecords", "ListIdentifiers", "GetRecord"),
            "metadataPrefix": ("oai_dc",),
            "$filter": ("n eq 1", "contains(city,'A') or not (n gt 2)"),
            "jsonrpc": ("2.0",),
            "method": ("tools/list", "tools/call", "initialize"),
            "do": ("describe", "retract", "schedule", "give", "take"),
        },
    )


class Honest:
    """An account that posts, reads and asks without a pause, and how long each took it."""

    def __init__(self, url: str, token: str) -> None:
        self.failures: list[str] = []
        self.posted = 0
        self.seconds: dict[str, list[float]] = {"post": [], "read": [], "ask": [], "health": []}
        self.client = httpx.Client(
            base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=60
        )

    def act(self) -> None:
        """One of each."""
        told = {"content-type": "application/x-ndjson", "prefer": "respond-async"}
        query = {"query": 'select count(*) as n from "alice/rows"'}
        acts = {
            "post": lambda: self.client.post("/alice/rows/ingest", content=ROW, headers=told),
            "read": lambda: self.client.get("/alice/rows/tail?limit=5"),
            "ask": lambda: self.client.post("/query", json=query),
            "health": lambda: self.client.get("/system/health"),
        }
        for name, act in acts.items():
            began = time.monotonic()
            try:
                answer = act()
            except httpx.HTTPError as error:
                self.failures.append(f"{name}: {error!r}")
            else:
                self.posted += name == "post"
                if answer.status_code not in (200, 202):
                    self.failures.append(f"{name}: {answer.status_code} {answer.text[:300]}")
            self.seconds[name].append(time.monotonic() - began)

    def p99(self, name: str) -> float:
        return statistics.quantiles(self.seconds[name], n=100, method="inclusive")[98]


@contextmanager
def working(url: str, token: str) -> Iterator[Honest]:
    """Let the honest account work while the block lasts."""
    honest, over = Honest(url, token), threading.Event()

    def work() -> None:
        for number in itertools.count():
            if over.is_set() and number >= 20:
                break
            honest.act()
            time.sleep(0.05)
        honest.client.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield honest
    finally:
        over.set()
        thread.join()


def peak_mb(pid: int) -> int:
    """Return the most memory that the process ever held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def held(pid: int) -> tuple[int, int]:
    """Return how many descriptors and threads the process has."""
    return tuple(len(list(Path(f"/proc/{pid}/{each}").iterdir())) for each in ("fd", "task"))


def crashes(log: Path) -> list[str]:
    """Return lines of the log that tell of a fault of the node itself."""
    return [
        line[:2000] for line in log.read_text().splitlines() if any(word in line for word in CRASH)
    ]


def rows_of(url: str, token: str) -> int:
    query = {"query": 'select count(*) as n from "alice/rows@changelog"'}
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}) as client:
        return int(client.post("/query", json=query, timeout=60).json()["output"]["data"][0]["n"])


def told(outcomes: list[Outcome], honest: Honest, memory: int) -> str:
    statuses = Counter(str(each.status) for each in outcomes)
    waits = ", ".join(
        f"{name} {len(took)}: median {statistics.median(took):.3f} s, p99 {honest.p99(name):.3f} s"
        for name, took in honest.seconds.items()
    )
    slowest = sorted(outcomes, key=lambda each: -each.seconds)[:5]
    lines = (str(each)[:300].partition("\r")[0] for each in slowest)
    return "\n".join((f"{dict(statuses)}; {memory} MB; {waits}", *lines))


def test_hostile_requests_crash_nothing_and_keep_nobody_waiting(stage: Any):
    node, token, names, tokens = stage
    maker, draws = Maker(names, random.Random(SEED)), random.Random(SEED)
    with working(node.url, token) as alone:
        pass
    before = held(node.process.pid)
    port, callers = int(node.env["ODF_NODE_FLIGHT_PORT"]), list(tokens.values())
    with working(node.url, token) as honest, ThreadPoolExecutor(1) as pool:
        calls = pool.submit(call_all, port, callers, COUNT // 20, SEED, FLIGHT_AT_ONCE)
        made = [twisted(draws, each) for each in maker.requests(COUNT)]
        outcomes = send_all(node.url, made, tokens, at_once=AT_ONCE, seed=SEED)
        wrong = calls.result()
    memory = peak_mb(node.process.pid)
    print(told(outcomes, honest, memory))
    bad = [str(each) for each in outcomes if each.is_bad]
    print(*bad, sep="\n")
    assert (bad, wrong) == ([], [])
    assert node.process.poll() is None
    assert honest.failures == []
    assert memory < MAX_MB
    assert crashes(node.data.parent / f"{node.data.name}.log") == []
    posted = alone.posted + honest.posted
    wait_until(lambda: rows_of(node.url, token) == posted, f"{posted} rows, each once")
    more = [now - then for now, then in zip(held(node.process.pid), before, strict=True)]
    assert max(more) < MORE_HELD, more
    # Of a sample there are too few to speak of a hundredth; each was answered within its minute.
    for name in honest.seconds if COUNT >= ALL else ():
        assert honest.p99(name) < max(HONEST_S, BUSY * alone.p99(name)), name


def test_a_seed_draws_every_route_and_shape_and_caller():
    made = Maker(Names(("a/b",), "a/c", {}), random.Random(SEED))
    drawn = list(made.requests(2 * len(routes())))
    assert {(each.method, each.route) for each in drawn} == {
        (each.method, each.path) for each in routes()
    }
    assert {each.shape for each in drawn} == set(SHAPES)
    assert {each.caller for each in drawn} == set(CALLERS)


def test_a_seed_draws_every_twist_that_fits_and_sends_what_it_made():
    draws = random.Random(SEED)
    plain = Asked("/", "long", "owner", "POST", "/", {}, b"{}")
    drawn = [twisted(draws, plain) for _ in range(300)]
    assert {each.twist for each in drawn} == set(TWISTS)
    bodiless = [twisted(draws, replace(plain, body=b"")) for _ in range(300)]
    assert {each.twist for each in bodiless} == set(TWISTS) - OF_BODIES
    for name, framing in FRAMINGS.items():
        lines, body = framing(b"{}")
        sent = bytes_of(replace(plain, framing=name), "t")
        assert sent.endswith(b"\r\n\r\n" + body)
        assert all(f"\r\n{each}: {text}\r\n".encode() in sent for each, text in lines)
