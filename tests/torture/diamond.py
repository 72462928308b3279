"""A diamond of five datasets: rows are posted, four derivatives follow by themselves, and worker,
service and database are killed meanwhile. Then everything is held against what plain Python
makes of the rows that were posted.

    numbers ──┬── tens ──┬── both ── last
              └── odds ──┘

    python tests/torture/diamond.py --iterations 200 --spark        (part of `make torture`)
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from diamond_judge import Judged, judge, wait_for_jobs
from diamond_shapes import ON_DATAFUSION, ON_SPARK, ROOT, Diamond, Row, row_of
from exactly_once import answer_to
from torment import _token as token_of
from world import Shape, World, wait_for_answers, world

KILLED = ("worker", "node", "postgres")
MOST_ROWS = 20
CAUGHT_UP = 0.3
"""Share of the posts after which the last derivative is waited for."""
PATIENCE_S = 600.0
SETTINGS = {"ODF_WORKER_LEASE_S": "3"}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was done and found."""

    iterations: int
    kills: dict[str, int]
    judged: Judged


@dataclass
class Player:
    """Posts batch after batch, and now and then waits until the derivatives have caught up."""

    api: httpx.Client
    here: World
    token: str
    dice: random.Random
    diamond: Diamond
    posted: list[Row]
    iterations: int = 0

    def play(self, iterations: int) -> None:
        for number in range(iterations):
            start = len(self.posted)
            rows = [row_of(start + at) for at in range(self.dice.randint(1, MOST_ROWS))]
            body = "".join(json.dumps(row.posted()) + "\n" for row in rows).encode()
            url = f"{self.here.url}/numbers/ingest"
            receipt = answer_to(url, self.token, body, f"batch-{number}")
            assert receipt["offsetStart"] == start, receipt
            assert receipt["rowsAdded"] == len(rows), receipt
            self.posted += rows
            self.iterations += 1
            if self.dice.random() < CAUGHT_UP:
                self.wait()

    def wait(self) -> None:
        """Until everything posted went through the whole diamond."""
        deadline = time.monotonic() + PATIENCE_S
        names = list(self.diamond.derivatives)
        while names:
            assert self.here.trouble is None, self.here.trouble
            try:
                found = self.api.get(f"/{names[0]}")
            except httpx.HTTPError:
                found = None
            if found is not None and found.status_code == 200:
                stands = found.json()["derivation"]
                assert stands["status"] not in ("paused", "manual"), stands
                if stands["status"] == "up-to-date":
                    names.pop(0)
                    continue
            assert time.monotonic() < deadline, f"{names[0]} never catches up"
            time.sleep(0.2)


def play(
    folder: Path,
    diamond: Diamond,
    *,
    iterations: int,
    seed: int,
    most: int,
    replay_every: int = 1,
    collector: bool = True,
) -> Outcome:
    """Play it below `folder`, and judge. At most so many posts are answered between two kills,
    and every so manieth execution is made again.

    Raises:
        AssertionError: a row is lost, doubled or out of order, or anything is damaged.
    """
    shape = Shape(
        bucket=False,
        spark=diamond is ON_SPARK,
        stand_in="deriving.py",
        collector=collector,
        settings=SETTINGS,
    )
    with world(folder, shape) as here:
        token = token_of(here)
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=here.url, headers=headers, timeout=30) as api:
            define(api, diamond)
            player = Player(api, here, token, random.Random(seed), diamond, [])
            over = threading.Event()
            killing = threading.Thread(
                target=kill_while, args=(here, player, random.Random(seed), over, most), daemon=True
            )
            killing.start()
            try:
                player.play(iterations)
            finally:
                over.set()
                killing.join()
            if here.trouble is not None:
                raise here.trouble
            wait_for_answers(here)
            player.wait()
            wait_for_jobs(here.stores)
        here.parts["worker"].kill(signal.SIGTERM if diamond is ON_SPARK else signal.SIGKILL)
        if collector:
            here.parts["collector"].kill()
        judged = judge(here.stores, diamond, player.posted, every=replay_every)
    return Outcome(iterations=player.iterations, kills=dict(Counter(here.kills)), judged=judged)


def define(api: httpx.Client, diamond: Diamond) -> None:
    """Make the five datasets."""
    for name, kind, event in (
        ("numbers", "Root", ROOT),
        *((name, "Derivative", diamond.transform(name)) for name in diamond.derivatives),
    ):
        content = {"name": name, "kind": kind, "metadata": [event]}
        manifest = {"kind": "DatasetSnapshot", "version": 1, "content": content}
        answer = api.post("/datasets", json=manifest, timeout=300)
        assert answer.status_code == 201, answer.text


def kill_while(
    here: World, player: Player, dice: random.Random, over: threading.Event, most: int
) -> None:
    """Kill one, two or all of what may be killed, whenever some posts were answered.

    By posts, not by the clock: on a busy machine nothing else would ever come up.
    """
    due = 0
    try:
        while not over.is_set():
            if player.iterations < due:
                over.wait(0.05)
                continue
            over.wait(dice.uniform(0, 1.5))
            _kill(here, dice.sample(KILLED, dice.choice((1, 1, 1, 2, 3))), dice)
            due = player.iterations + dice.randint(1, most)
    except Exception as problem:
        here.trouble = problem


def _kill(here: World, names: Sequence[str], dice: random.Random) -> None:
    for name in names:
        immediate = name == "postgres" and dice.random() < 0.5
        here.parts[name].kill(signal.SIGQUIT if immediate else signal.SIGKILL)
        here.kills.append(name)
    time.sleep(dice.uniform(0, 0.3))
    for name in sorted(names, key=list(here.parts).index):  # servers first
        here.parts[name].start()


def main() -> None:
    words = argparse.ArgumentParser(description="Kill what computes a diamond, and judge.")
    words.add_argument("--iterations", type=int, default=200)
    words.add_argument("--seed", type=int, default=None)
    words.add_argument("--most", type=int, default=3, help="posts between two kills at most")
    words.add_argument("--spark", action="store_true", help="on Spark, with the real worker")
    words.add_argument("--replay-every", type=int, default=1, help="1: all executions")
    given: Any = words.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    folder = Path(tempfile.mkdtemp(prefix="odf-diamond-"))
    folder.chmod(0o755)  # PostgreSQL may run as somebody else
    print(f"seed {seed}; logs are in {folder}", flush=True)
    diamond = ON_SPARK if given.spark else ON_DATAFUSION
    outcome = play(
        folder,
        diamond,
        iterations=given.iterations,
        seed=seed,
        most=given.most,
        replay_every=given.replay_every,
    )
    print(outcome)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
