"""Eight writers post random batches under Idempotency-Keys, again and again until each is
answered, and some once more, while service, worker, database and S3 server are killed. Then every
receipt is held against the rows: each is true, no row is lost, none is there twice, and once
garbage is collected no object is there that the head does not lead to.

    python tests/torture/exactly_once.py --rows 100000 --spark
"""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import clients
import httpx
import pyarrow.parquet as pq
import pytest
from crash_work import settings_of
from judge import check_all, check_nothing_left
from torment import _token as token_of
from torment import wait_for_jobs
from upkeep_parts import TOMORROW
from world import Shape, World, world

from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import AddData
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.open_stores import open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.stores.ports.values import ObjectKind

WRITERS, MOST_ROWS = 8, 100
ROUNDS, FEW_POSTS = 60, 30
"""How often something is killed, in the mean; and after how many posts, in the mean, at least."""
REPEATED = 0.2
"""Share of the posts that are sent once more after they were answered."""
PAUSE_S = 0.2
KILLED = ("postgres", "s3", "node", "worker")
"""In the order in which they are started again."""
TURNED_AWAY = frozenset({409, 429, 500, 502, 503})
SETTINGS = {"ODF_WORKER_LEASE_S": "3", "ODF_WORKER_JOB_DEATHS": "1000"}
"""Jobs of a killed worker are free again soon, and no job is blamed for our kills."""
ALL_ON_SPARK = {**SETTINGS, "ODF_WORKER_MICRO_BATCH_BYTES": "0"}
NDJSON = "application/x-ndjson"


@dataclass
class Told:
    """One batch and the answer to it."""

    rows: list[str]
    receipt: dict[str, Any]


@dataclass
class Writer:
    """Posts until it has sent so many rows."""

    name: str
    url: str
    token: str
    rows: int
    most: int = MOST_ROWS
    """Rows of a post."""
    told: list[Told] = field(default_factory=list)
    failure: Exception | None = None

    def run(self) -> None:
        try:
            self._run(random.Random(self.name))
        except Exception as failure:
            self.failure = failure

    def _run(self, dice: random.Random) -> None:
        left, number = self.rows, 0
        with httpx.Client() as http:
            while left > 0:
                count = min(left, dice.choice((1, 1, dice.randint(1, self.most))))
                rows = [f"{self.name} {number} {at}" for at in range(count)]
                key = f"{self.name}-{number}"
                receipt = self._answer(rows, key, http)
                if dice.random() < REPEATED:
                    again = self._answer(rows, key, http)
                    assert again == receipt, f"another answer to the repeat of {key}"
                self.told.append(Told(rows, receipt))
                left, number = left - count, number + 1

    def _answer(self, rows: list[str], key: str, http: httpx.Client) -> dict[str, Any]:
        body = "".join(f'{{"text": "{row}"}}\n' for row in rows).encode()
        return answer_to(self.url, self.token, body, key, http)


def answer_to(
    url: str, token: str, body: bytes, key: str, http: httpx.Client | None = None
) -> dict[str, Any]:
    """The receipt of a batch; asked for until it comes."""
    post = httpx.post if http is None else http.post
    headers = {
        "authorization": f"Bearer {token}",
        "content-type": NDJSON,
        "idempotency-key": key,
    }
    while True:
        try:
            answer = post(url, content=body, headers=headers, timeout=20)
        except httpx.HTTPError:
            time.sleep(PAUSE_S)
            continue
        if answer.status_code == 200:
            return dict(answer.json())
        assert answer.status_code in TURNED_AWAY | {202}, answer.text
        time.sleep(PAUSE_S)


def exactly_once(
    folder: Path,
    shape: Shape,
    *,
    rows: int,
    seed: int,
    most: int = MOST_ROWS,
    few_posts: int = FEW_POSTS,
) -> dict[str, int]:
    """Play it below `folder` and judge; what was done, by name. Posts have up to `most` rows."""
    with world(folder, shape) as here:
        token = token_of(here)
        _make_dataset(here, token)
        url = f"{here.url}/rows/ingest"
        writers = [Writer(f"w{n}", url, token, rows // WRITERS, most) for n in range(WRITERS)]
        threads = [threading.Thread(target=writer.run, daemon=True) for writer in writers]
        for thread in threads:
            thread.start()
        mean = (2 + most / 2) / 3
        pause = 2 * max(int(rows / mean / ROUNDS), few_posts)
        kills = _kill_while(here, threads, writers, random.Random(seed), pause)
        for writer in writers:
            if writer.failure is not None:
                raise writer.failure
        count = _judged(here, [told for writer in writers for told in writer.told])
    receipts = [told.receipt for writer in writers for told in writer.told]
    return {
        "rows": count,
        "posts": len(receipts),
        "posts on Spark": sum(each["ran"]["way"] == "spark" for each in receipts),
        "posts in several jobs": sum(each["ran"]["sparkJobs"] > 1 for each in receipts),
        "kills": sum(kills.values()),
        **kills,
    }


def _judged(here: World, told: list[Told]) -> int:
    """What is stored in the end, seen from here: the rows, and nothing beside them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            if name in here.env:
                patch.setenv(name, here.env[name])
        stores = open_stores(settings_of(here.stores), migrate=False, repair=False)
        try:
            wait_for_jobs(stores)
            here.parts["worker"].kill()
            if "collector" in here.parts:
                here.parts["collector"].kill()
            count = judge(stores.dataset(DatasetRef.parse("kamu/rows")), told)
            _judge_stores(stores)
        finally:
            stores.close()
    return count


def _judge_stores(stores: Stores) -> None:
    stores.republish_all()
    check_all(stores)
    collect_garbage(stores, clock=TOMORROW)
    check_all(stores)
    check_nothing_left(stores)


def _make_dataset(here: World, token: str) -> None:
    content = {"name": "rows", "kind": "Root", "metadata": [clients.MANIFEST]}
    manifest = {"kind": "DatasetSnapshot", "version": 1, "content": content}
    headers = {"authorization": f"Bearer {token}"}
    httpx.post(
        f"{here.url}/datasets", json=manifest, headers=headers, timeout=30
    ).raise_for_status()


def _kill_while(
    here: World,
    threads: list[threading.Thread],
    writers: list[Writer],
    dice: random.Random,
    pause: int,
) -> Counter[str]:
    """Kill some of the parts whenever at most `pause` posts were answered; which, how often.

    By posts, not by the clock: on a busy machine nothing else would ever come up.
    """
    kills, seen = Counter[str](), 0
    parts = [name for name in KILLED if name in here.parts]
    while any(thread.is_alive() for thread in threads):
        answered = sum(len(writer.told) for writer in writers)
        if answered < seen:
            time.sleep(0.05)
            continue
        time.sleep(dice.uniform(0, 0.1))
        names = sorted(dice.sample(parts, dice.randint(1, len(parts))), key=parts.index)
        for name in reversed(names):
            here.parts[name].kill(signal.SIGKILL)
            kills[name] += 1
        for name in names:
            here.parts[name].start()
        seen = answered + dice.randint(1, pause)
    return kills


def judge(dataset: Dataset, told: list[Told]) -> int:
    """Hold every receipt against the rows of the dataset; how many rows there are."""
    found: dict[int, str] = {}
    blocks = dataset.blocks()
    for block in blocks:
        piece = block.event.new_data if isinstance(block.event, AddData) else None
        if piece is not None:
            with dataset.open_object(ObjectKind.DATA, piece.physical_hash) as stream:
                table = pq.read_table(stream, columns=["offset", "text"])
            pairs = zip(table["offset"].to_pylist(), table["text"].to_pylist(), strict=True)
            found.update(pairs)
    hashes = {str(block.hash) for block in blocks}
    for each in told:
        receipt = each.receipt
        interval = range(receipt["offsetStart"], receipt["offsetEnd"] + 1)
        assert [found[offset] for offset in interval] == each.rows, f"not what was sent: {receipt}"
        assert receipt["rowsAdded"] == len(each.rows)
        assert set(receipt["blocks"]) <= hashes, f"blocks that are not there: {receipt}"
    sent = [row for each in told for row in each.rows]
    assert len(found) == len(sent), f"{len(found)} rows for {len(sent)} that were sent"
    assert sorted(found.values()) == sorted(sent)
    return len(found)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--rows", type=int, default=100_000)
    asked.add_argument("--seed", type=int, default=20)
    asked.add_argument("--sqlite", action="store_true", help="instead of PostgreSQL")
    asked.add_argument("--most", type=int, default=3000, help="rows of a post")
    asked.add_argument("--files", action="store_true", help="instead of the S3 server")
    asked.add_argument(
        "--spark", action="store_true", help="with the real worker, and all stages on Spark"
    )
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # PostgreSQL may run as somebody else
        shape = Shape(
            postgres=not given.sqlite,
            bucket=not given.files,
            spark=given.spark,
            cuts=given.spark,
            settings=ALL_ON_SPARK if given.spark else SETTINGS,
        )
        done = exactly_once(Path(folder), shape, rows=given.rows, seed=given.seed, most=given.most)
    print(", ".join(f"{count} {name}" for name, count in done.items()))


if __name__ == "__main__":
    main()
