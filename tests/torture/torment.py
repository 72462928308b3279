"""One round: run everything, kill at random for a while, let it settle, judge.

python tests/torture/torment.py --seconds 600 --seed 7 --spark        (`make torture`)
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import clients
import pyarrow.parquet as pq
import pytest
from crash_work import settings_of
from judge import check_all, check_nothing_left
from nodes import COMMAND
from upkeep_parts import TOMORROW
from world import Shape, World, wait_for_answers, world

from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.metadata.events import AddData
from odf_storage.datasets.node.open_stores import open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.datasets.verify.run import DatasetSource, verify_chain
from odf_storage.stores.ports.values import JobStatus, ObjectKind

SETTLE_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """What happened: kills by part, acknowledgements, failures clients saw."""

    kills: dict[str, int]
    acknowledged: int
    rows: int
    failures: dict[str, int]


def torment(
    folder: Path, shape: Shape, *, seconds: float, seed: int, pause: float, kills: int = 10**9
) -> Outcome:
    """Until the time is over or so many were killed.

    Raises:
        AssertionError: anything acknowledged is lost, or anything is damaged.
    """
    with world(folder, shape) as here:
        stop, over = threading.Event(), threading.Event()
        started = clients.run(here.url, _token(here), folder, stop, each=2)
        killing = threading.Thread(
            target=here.torment, args=(random.Random(seed), over), kwargs={"pause": pause}
        )
        time.sleep(2)
        killing.start()
        deadline = time.monotonic() + seconds
        while len(here.kills) < kills and time.monotonic() < deadline and here.trouble is None:
            time.sleep(0.2)
        over.set()
        killing.join(SETTLE_S)
        while sum(len(each.heads) for each, _ in started) < len(started):  # all get through
            if here.trouble is not None:
                raise here.trouble
            assert time.monotonic() < deadline + SETTLE_S, _what_clients_saw(started)
            time.sleep(0.2)
        stop.set()
        if here.trouble is not None:
            raise here.trouble
        wait_for_answers(here)
        said = clients.wait_for(started)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                if name in here.env:
                    patch.setenv(name, here.env[name])
            stores = open_stores(settings_of(here.stores), migrate=False)
            try:
                _judge(here, stores, said)
            finally:
                stores.close()
    failures: Counter[str] = Counter()
    for each in said:
        failures.update(each.failures)
    return Outcome(
        dict(Counter(here.kills)),
        sum(len(each.heads) for each in said),
        sum(len(each.rows) for each in said),
        dict(failures),
    )


def _what_clients_saw(started: list[tuple[clients.Said, threading.Thread]]) -> str:
    seen = [f"{said.alias} {thread.is_alive()} {said.failures}" for said, thread in started]
    return f"nothing works any more: {seen}"


def _token(here: World) -> str:
    create = [COMMAND, "token", "create", "--account", "kamu", "--json"]
    done = subprocess.run(create, env=here.env, capture_output=True, text=True, check=True)
    return str(json.loads(done.stdout)["token"])


def _judge(here: World, stores: Stores, said: list[clients.Said]) -> None:
    wait_for_jobs(stores)
    here.parts["collector"].kill()
    stores.republish_all()
    for each in said:
        judge_client(stores, f"kamu/{each.alias}", each)
    check_all(stores)
    collect_garbage(stores, clock=TOMORROW)
    check_all(stores)
    check_nothing_left(stores)


def wait_for_jobs(stores: Stores) -> None:
    """Whatever was left running is claimed again once its lease is over."""
    deadline = time.monotonic() + SETTLE_S
    open_ = (JobStatus.WAITING, JobStatus.RUNNING)
    while stores.jobs.page(statuses=open_):
        assert time.monotonic() < deadline, "a job is never done"
        time.sleep(0.2)


def judge_client(stores: Stores, alias: str, said: clients.Said) -> None:
    """Nothing that a client was told of its dataset is lost, and no row is there twice."""
    found = stores.registry.find(DatasetRef(alias=DatasetAlias.parse(alias)))
    if found is None:
        assert not said.heads, f"{said.alias} is gone"
        return
    dataset = stores.dataset(DatasetRef(id=found.id))
    blocks = dataset.blocks()
    lost = set(said.heads) - {str(block.hash) for block in blocks}
    assert not lost, f"{said.alias}: {len(lost)} acknowledged commits are gone"
    verified = verify_chain(DatasetSource(dataset))
    assert verified.ok, verified.problems
    if not said.unsure:
        return
    rows: Counter[str] = Counter()
    for block in blocks:
        part = block.event.new_data if isinstance(block.event, AddData) else None
        if part is not None:
            with dataset.open_object(ObjectKind.DATA, part.physical_hash) as stream:
                rows.update(pq.read_table(stream, columns=["text"])["text"].to_pylist())
    assert set(said.rows) <= set(rows), f"{said.alias}: acknowledged rows are gone"
    assert set(rows) <= set(said.unsure), f"{said.alias}: rows nobody sent"
    twice = [row for row, count in rows.items() if count > 1]
    assert not twice, f"{said.alias}: rows are there twice: {twice[:5]}"


def main() -> None:
    words = argparse.ArgumentParser(description="Kill everything at random, and judge.")
    words.add_argument("--seconds", type=float, default=600)
    words.add_argument("--seed", type=int, default=None)
    words.add_argument("--pause", type=float, default=4.0, help="longest time between kills")
    words.add_argument("--spark", action="store_true", help="with the real worker")
    words.add_argument("--database", choices=("sqlite", "postgres"), default="postgres")
    words.add_argument("--objects", choices=("files", "bucket"), default="bucket")
    given = words.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    shape = Shape(
        postgres=given.database == "postgres", bucket=given.objects == "bucket", spark=given.spark
    )
    folder = Path(tempfile.mkdtemp(prefix="odf-torture-"))
    folder.chmod(0o755)  # PostgreSQL may run as somebody else
    print(f"logs are in {folder}", flush=True)
    print(torment(folder, shape, seconds=given.seconds, seed=seed, pause=given.pause))
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
