"""The night after a fire, as one drill: people of a provider post, read and ask at two services
while parts of the node are killed; a backup is made beside them; all is lost; another node, on the
other kind of database and store, is restored from it.

python tests/torture/drill.py --people 200 --seconds 600 --seed 7        (`make torture`)
"""

from __future__ import annotations

import argparse
import base64
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import oidc_provider_mock as mock
import pytest
from clients import MANIFEST, Said
from crash_work import settings_of
from ingesting import work
from judge import check_all
from nodes import COMMAND, served
from torment import judge_client, wait_for_jobs
from world import Shape, World, wait_for_answers, world

from odf_protocol.errors import code_of
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.open_stores import open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.stores.index.sql_sizes import EACH

EACH_BYTES = 50_000_000
"""Quota of an account."""
PAUSE_S = 0.2
PATIENCE_S = 180.0
MANY = 20
"""Each person asks after so many posts."""
TELLING = re.compile(
    r"a restore would lose: (?P<alias>\S+): (?:behind block (?P<behind>\d+)|(?P<all>all of it))"
    r", up to block (?P<last>\d+)"
)


@dataclass(frozen=True)
class Drill:
    """What was done, and what was lost: after the backup alone, and said."""

    kills: dict[str, int]
    posted: int
    reads: int
    questions: int
    over_quota: int
    backups: int
    """How often the backup was begun."""
    restores: int
    told_lost: int
    """Datasets of which the check said that they have blocks behind the backup."""
    failures: dict[str, int] = field(default_factory=dict)


@dataclass
class Person:
    """Somebody with an account at the provider, and a dataset here."""

    name: str
    said: Said
    token: str = ""
    reads: int = 0
    questions: int = 0
    over_quota: int = 0
    made: bool = False

    def live(self, urls: list[str], stop: threading.Event) -> None:
        """Log in, make a dataset, post to it, read and ask; whatever fails is tried again, at the
        other service."""
        for url in itertools.cycle(urls):
            try:
                with httpx.Client(base_url=url, timeout=30) as http:
                    self._live(http, stop)
            except (httpx.HTTPError, ValueError) as problem:
                self.said.failed(code_of(problem))
            if stop.wait(PAUSE_S):
                return

    def _live(self, http: httpx.Client, stop: threading.Event) -> None:
        self.token = self.token or log_in(http, self.name)
        http.headers["authorization"] = f"Bearer {self.token}"
        if not self.made:
            self._make(http)
        while not stop.is_set():
            self._post(http)
            head = http.get(f"/{self.said.alias}/refs/head").raise_for_status().text
            if not self.said.heads:
                self.said.heads.append(head)
            self.reads += 1
            if len(self.said.unsure) % MANY == 1:
                self._ask(http)

    def _make(self, http: httpx.Client) -> None:
        snapshot = {"name": self.said.alias, "kind": "Root", "metadata": [MANIFEST]}
        body = {"kind": "DatasetSnapshot", "version": 1, "content": snapshot}
        answer = http.post("/datasets", json=body)
        if answer.status_code != 409:
            answer.raise_for_status()
        self.made = True

    def _post(self, http: httpx.Client) -> None:
        row = f"{self.said.alias} {len(self.said.unsure)}"
        self.said.unsure.append(row)
        kind = {"content-type": "application/x-ndjson"}
        content = json.dumps({"text": row}) + "\n"
        answer = http.post(f"/{self.said.alias}/ingest", content=content, headers=kind)
        if answer.status_code == 413:
            assert answer.json()["type"].endswith(":QuotaExceeded"), answer.text
            self.over_quota += 1
            return
        answer.raise_for_status()
        self.said.heads.append(answer.json()["head"])
        self.said.rows.append(row)

    def _ask(self, http: httpx.Client) -> None:
        known = len(self.said.rows)
        query = f'SELECT count(*) AS n FROM "{self.said.alias}"'
        answer = http.post("/query", json={"query": query})
        if answer.status_code == 400 and not known:
            return  # it has no schema before its first row
        answer.raise_for_status()
        count = next(iter(_values(answer.json()["output"]["data"])))
        assert count >= known, f"{self.said.alias}: {count} rows of {known}"
        self.questions += 1


def _values(rows: Any) -> Iterator[int]:
    for row in rows:
        yield from (row.values() if isinstance(row, dict) else row)


def log_in(http: httpx.Client, name: str) -> str:
    """Go through the pages of the provider, and return a token of the account."""
    http.cookies.clear()
    begun = http.get("/v/oidc/begin")
    if begun.status_code != 303:
        begun.raise_for_status()
    sent = httpx.post(begun.headers["location"], data={"sub": name}, timeout=30)
    http.get(sent.headers["location"]).raise_for_status()
    session = next(one.value for one in http.cookies.jar if one.name == "odf_session")
    bearer = {"authorization": f"Bearer {session}"}
    made = http.post("/accounts/me/tokens", json={"label": "drill"}, headers=bearer)
    return str(made.raise_for_status().json()["token"])


def drill(
    folder: Path,
    *,
    people: int,
    seconds: float,
    seed: int,
    pause: float,
    after_posts: int = 3,
) -> Drill:
    """Run it below `folder`: for so long before the backup, and after it until so many posts of
    each person were acknowledged, half of the time at least.

    Raises:
        AssertionError: something that was acknowledged before the backup is lost, or what came
            later is not told, or anything is damaged.
    """
    dice = random.Random(seed)
    them = [Person(f"p{number}", Said(f"p{number}/rows")) for number in range(people)]
    key = folder / "key"
    key.write_bytes(base64.b64encode(dice.randbytes(32)))
    users = [mock.User(sub=one.name, claims={"preferred_username": one.name}) for one in them]
    with mock.run_server_in_thread(user_claims=users) as provider:
        settings = {
            "ODF_OIDC_ISSUER": f"http://localhost:{provider.server_port}",
            "ODF_OIDC_CLIENT_SECRET": "any",
            "ODF_NODE_TENANCY": "multi",
        }
        shape = Shape(services=2, workers=2, settings=settings)
        with world(folder, shape) as here:
            before, backups, heads, lines = _with_people(
                here, them, folder, dice, seconds=seconds, pause=pause, after_posts=after_posts
            )
        for each in ("node", "postgres", "s3"):
            shutil.rmtree(folder / each)
        env = {**os.environ, **settings}
        restores = _restored(folder, env, dice)
        told = _judge(folder, before, heads, lines)
        _goes_on(folder, them, settings)
    failures: Counter[str] = Counter()
    for one in them:
        failures.update(one.said.failures)
    return Drill(
        dict(Counter(here.kills)),
        sum(len(one.said.rows) for one in them),
        sum(one.reads for one in them),
        sum(one.questions for one in them),
        sum(one.over_quota for one in them),
        backups,
        restores,
        told,
        dict(failures),
    )


def _with_people(
    here: World,
    them: list[Person],
    folder: Path,
    dice: random.Random,
    *,
    seconds: float,
    pause: float,
    after_posts: int,
) -> tuple[list[Said], int, dict[str, tuple[Multihash, int]], list[str]]:
    """Return what people had been told when the backup began, how often it was begun, head and
    number of its block of each dataset at the end, and the lines of the check then."""
    with opened(here) as stores:
        stores.quotas.set_limit(EACH, EACH_BYTES)
    stop, over = threading.Event(), threading.Event()
    threads = [threading.Thread(target=one.live, args=(here.urls, stop)) for one in them]
    killing = threading.Thread(target=here.torment, args=(dice, over), kwargs={"pause": pause})
    try:
        for each in (*threads, killing):
            each.start()
        _until(here, them, 2, seconds)
        before, backups = _backed_up(here, them, folder, dice)
        counts = [len(one.said.rows) for one in them]
        _lower(here, them[0])
        _until(here, them[1:], after_posts, seconds / 2, counts[1:])
    finally:
        over.set()
        killing.join(PATIENCE_S)
        stop.set()
        for each in threads:
            each.join(PATIENCE_S)
    if here.trouble is not None:
        raise here.trouble
    assert not any(each.is_alive() for each in threads), "somebody hangs"
    wait_for_answers(here)
    with opened(here) as stores:
        wait_for_jobs(stores)
        here.parts["collector"].kill()
        stores.republish_all()
        check_all(stores)
        for one in them:
            judge_client(stores, one.said.alias, one.said)
        heads = {one.said.alias: _head(stores, one.said.alias) for one in them}
    _refused_but_read(here, them[0])
    checked = _odf(here.env, "backup", "check", folder / "backups", "--key", folder / "key")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return before, backups, heads, checked.stdout.splitlines()


@contextmanager
def opened(here: World) -> Iterator[Stores]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, here.env[name])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                stores = open_stores(settings_of(here.stores), migrate=False, repair=False)
                break
            except Exception:  # a server is being killed
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)
        try:
            yield stores
        finally:
            stores.close()


def _until(
    here: World, them: list[Person], posts: int, seconds: float, since: list[int] | None = None
) -> None:
    """Wait so long, and until each of them was told of so many posts more."""
    began = time.monotonic()
    since = since or [0] * len(them)
    while (
        time.monotonic() < began + seconds
        or min(len(one.said.rows) - count for one, count in zip(them, since, strict=True)) < posts
    ):
        if here.trouble is not None:
            raise here.trouble
        late = [f"{one.name} {len(one.said.rows)} {one.said.failures}" for one in them]
        assert time.monotonic() < began + seconds + PATIENCE_S, f"nothing works: {late[:5]}"
        time.sleep(PAUSE_S)


def _backed_up(
    here: World, them: list[Person], folder: Path, dice: random.Random
) -> tuple[list[Said], int]:
    """Make a backup, whose first attempt is killed, and others may be by what it needs."""
    words = [COMMAND, "backup", "make", folder / "backups", "--key", folder / "key", "--json"]
    deadline = time.monotonic() + PATIENCE_S
    for attempt in itertools.count(1):
        before = [Said(one.said.alias, list(one.said.heads), list(one.said.rows)) for one in them]
        running = subprocess.Popen(
            words, env=here.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if attempt == 1:
            time.sleep(dice.uniform(1, 3))
            running.kill()
        told, why = running.communicate(timeout=PATIENCE_S)
        if running.returncode == 0:
            assert json.loads(told)["missing"] == []
            return before, attempt
        assert time.monotonic() < deadline, why
    raise AssertionError


def _lower(here: World, one: Person) -> None:
    """Set the quota of somebody below what they have stored."""
    with opened(here) as stores:
        for _ in range(100):
            try:
                account = stores.accounts.find_account(one.name)
                assert account is not None
                stores.quotas.set_limit(account.id, 1)
                return
            except Exception as problem:
                one.said.failed(code_of(problem))
                time.sleep(PAUSE_S)


def _refused_but_read(here: World, one: Person) -> None:
    """Who has more than their quota keeps all of it, and stores no more."""
    known = one.over_quota, len(one.said.rows)
    bearer = {"authorization": f"Bearer {one.token}"}
    with httpx.Client(base_url=here.url, timeout=60, headers=bearer) as http:
        one._post(http)
        assert (one.over_quota, len(one.said.rows)) == (known[0] + 1, known[1])
        assert http.get(f"/{one.said.alias}/tail").status_code == 200


def _restored(folder: Path, env: dict[str, str], dice: random.Random) -> int:
    """Restore; the first attempt is killed. Return how often it was begun. One that is killed when
    all was restored leaves a node, which the next one does not touch; the judge looks at it."""
    words = ["restore", folder / "backups", "--key", folder / "key", "--data", folder / "new"]
    running = subprocess.Popen([COMMAND, *words], env=env, stderr=subprocess.DEVNULL)
    time.sleep(dice.uniform(1, 3))
    running.kill()
    if running.wait() == 0:
        return 1
    done = _odf(env, *words)
    assert done.returncode == 0 or "there is a node" in done.stderr, done.stderr
    return 2


def _odf(env: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *map(str, words)], env=env, capture_output=True, text=True, check=False
    )


def _head(stores: Stores, alias: str) -> tuple[Multihash, int]:
    found = stores.registry.find(DatasetRef(alias=DatasetAlias.parse(alias)))
    assert found is not None, f"{alias} is gone"
    blocks = stores.dataset(DatasetRef(id=found.id)).blocks()
    return blocks[-1].hash, len(blocks) - 1


def _judge(
    folder: Path,
    before: list[Said],
    heads: dict[str, tuple[Multihash, int]],
    lines: list[str],
) -> int:
    """All that was acknowledged before the backup is there, and what came later was told, to the
    block. Return of how many datasets."""
    told = {found["alias"]: found for found in map(TELLING.match, lines) if found is not None}
    with opened_folder(folder / "new") as stores:
        report = check_stores(stores, FsckOptions(rehash=True))
        assert report.ok, report.problems
        for said in before:
            if said.heads:
                judge_client(stores, said.alias, said)
        known = {str(entry.alias) for entry in stores.registry.page(limit=10_000)}
        for alias, (head, last) in heads.items():
            found = told.pop(alias, None)
            if alias not in known:
                assert found is not None
                assert (found["all"], int(found["last"])) == ("all of it", last)
                continue
            kept = _head(stores, alias)
            assert (kept[0] == head) == (found is None), f"{alias}: {kept}, {head}, {found}"
            if found is not None:
                assert (int(found["behind"]), int(found["last"])) == (kept[1], last)
        assert not told
    return len([line for line in lines if TELLING.match(line)])


@contextmanager
def opened_folder(data: Path) -> Iterator[Stores]:
    stores = open_stores(settings_of({"data": str(data)}), repair=False)
    try:
        yield stores
    finally:
        stores.close()


def _goes_on(folder: Path, them: list[Person], settings: dict[str, str]) -> None:
    """Tokens hold, the provider lets the same people in, and rows are taken."""
    one = them[-1]
    with served(folder / "new", "--workers", "0", **settings) as node, node.http() as http:
        bearer = {"authorization": f"Bearer {one.token}"}
        whose = http.get("/accounts/me", headers=bearer).raise_for_status().json()
        again = {"authorization": f"Bearer {log_in(http, one.name)}"}
        assert http.get("/accounts/me", headers=again).json() == whose
        head = http.get(f"/{one.said.alias}/refs/head", headers=bearer).raise_for_status().text
        kind = {"content-type": "application/x-ndjson", "prefer": "respond-async"}
        rows = '{"text": "after the fire"}\n'
        path = f"/{one.said.alias}/ingest"
        taken = http.post(path, content=rows, headers={**bearer, **kind})
        assert taken.status_code == 202, taken.text
        with opened_folder(folder / "new") as stores:
            work(stores)
            wait_for_jobs(stores)
            collect_garbage(stores)
            check_all(stores)
        moved = http.get(f"/{one.said.alias}/refs/head", headers=bearer).raise_for_status().text
        assert moved != head


def main() -> None:
    words = argparse.ArgumentParser(description="Lose a node that people use, and restore it.")
    words.add_argument("--people", type=int, default=200)
    words.add_argument("--seconds", type=float, default=600)
    words.add_argument("--seed", type=int, default=None)
    words.add_argument("--pause", type=float, default=8.0, help="longest time between kills")
    given = words.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="odf-drill-"))
    folder.chmod(0o755)  # PostgreSQL may run as somebody else
    print(f"logs are in {folder}", flush=True)
    print(drill(folder, people=given.people, seconds=given.seconds, seed=seed, pause=given.pause))
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
