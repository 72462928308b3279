"""A whole node as processes that can be killed one by one: service, worker, garbage collector,
PostgreSQL, S3 server. What is killed is started again after a moment."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from buckets import make_bucket
from nodes import answers
from processes import python_path
from servers import Program, S3Server, free_port, postgres_program, s3_program, wait_until

HERE = Path(__file__).parent
AGING = (sys.executable, HERE / "aging.py")
PATH = python_path(HERE.parents[0] / "support", HERE)
START_SECONDS = 120.0


@dataclass
class Killable:
    """One process, of its own session so that nothing of it survives."""

    name: str
    program: Program
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, again while remains of the last one are in the way, and wait until it answers."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            self._process = self.program.start()
            while self._process.poll() is None:
                if self.program.ready():
                    return
                assert time.monotonic() < deadline, f"{self.name} does not come up"
                time.sleep(0.05)
            assert time.monotonic() < deadline, f"{self.name} ends at once; see {self.program.log}"
            time.sleep(0.2)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it, and what it started. Raises `AssertionError` if it had ended by itself."""
        process, self._process = self._process, None
        if process is None:
            return
        ended = process.poll()
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(process.pid, number)
            else:
                os.kill(process.pid, number)
        process.wait(timeout=60)
        assert ended is None, f"{self.name} ended by itself ({ended}); see {self.program.log}"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the node is made of."""

    postgres: bool = True
    bucket: bool = True
    spark: bool = False
    """The real `odf-worker`; otherwise one that merges without Spark, and is up at once."""
    cuts: bool = False
    """That worker also takes the jobs of large batches for small ones."""
    stand_in: str = "ingesting.py"
    """The one without Spark."""
    collector: bool = True
    """Garbage is collected all the time."""
    services: int = 1
    workers: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    """More variables of the environment for service and worker."""


@dataclass
class World:
    """Everything that runs. `stores` is how to open the same stores from here."""

    url: str
    """Of the first service."""
    stores: dict[str, Any]
    env: dict[str, str]
    urls: list[str] = field(default_factory=list)
    """Of all services."""
    parts: dict[str, Killable] = field(default_factory=dict)
    kills: list[str] = field(default_factory=list)
    trouble: Exception | None = None
    """What kept a part from being started again."""

    def torment(self, dice: random.Random, stop: threading.Event, *, pause: float) -> None:
        """Kill some parts after others until told to stop; all of them run at the end."""
        try:
            self._torment(dice, stop, pause)
        except Exception as problem:
            self.trouble = problem

    def _torment(self, dice: random.Random, stop: threading.Event, pause: float) -> None:
        while not stop.wait(dice.uniform(0.2, 1) * pause):
            names = dice.sample(sorted(self.parts), dice.choice((1, 1, 2, 3)))
            for name in names:
                immediate = name == "postgres" and dice.random() < 0.5
                self.parts[name].kill(signal.SIGQUIT if immediate else signal.SIGKILL)
                self.kills.append(name)
            stop.wait(dice.uniform(0, 0.3) * pause)
            for name in sorted(names, key=list(self.parts).index):  # servers first
                self.parts[name].start()


@contextmanager
def world(folder: Path, shape: Shape) -> Iterator[World]:
    """Start everything below `folder`; nothing is left running."""
    data, ports = folder / "node", [free_port() for _ in range(shape.services)]
    data.mkdir()
    env = {**os.environ, "PYTHONPATH": PATH, **shape.settings}
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    here = World(urls[0], {"data": str(data)}, env, urls)
    try:
        if shape.postgres:
            (folder / "postgres").mkdir()
            here.stores["database_url"], program = postgres_program(folder / "postgres")
            program.command.extend(("-c", "fsync=off"))  # what a kill leaves, the system keeps
            _add(here, "postgres", program)
        if shape.bucket:
            (folder / "s3").mkdir()
            endpoint, program = s3_program(folder / "s3")
            _add(here, "s3", program)
            server = S3Server(endpoint, "test-access", "test-secret", None)  # type: ignore[arg-type]
            here.stores["objects_url"] = make_bucket(server)
            env |= {"AWS_ACCESS_KEY_ID": "test-access", "AWS_SECRET_ACCESS_KEY": "test-secret"}
        for key, value in here.stores.items():
            env[f"ODF_STORE_{key.upper()}"] = value
        for number, (port, url) in enumerate(zip(ports, urls, strict=True)):
            serve = [*AGING, "odf-node", "serve", "--port", str(port), "--workers", "0"]
            name = _numbered("node", number)
            _add(here, name, _program(serve, env, folder, name, partial(answers, url)))
        told = json.dumps(here.stores)
        names = (_numbered("worker", number) for number in range(shape.workers))
        beside = {name: _worker(shape, told) for name in names}
        if shape.collector:
            beside["collector"] = [sys.executable, HERE / "collecting.py", told]
        for name, words in beside.items():
            _add(here, name, _program(words, env, folder, name, lambda: True))
        yield here
    finally:
        with ExitStack() as ends:  # all of them, whatever one of them says
            for part in here.parts.values():
                ends.callback(part.kill)


def _numbered(name: str, number: int) -> str:
    return f"{name}-{number + 1}" if number else name


def _worker(shape: Shape, told: str) -> list[Any]:
    if shape.cuts:
        return [*AGING, HERE / "cutting.py", "--no-warm-up"]
    if shape.spark:
        return [*AGING, "odf-worker", "--no-warm-up"]
    return [*AGING, HERE / shape.stand_in, told]


def _program(
    command: list[Any], env: dict[str, str], folder: Path, name: str, ready: Any
) -> Program:
    return Program(command, {"env": env}, folder / f"{name}.log", ready)


def _add(here: World, name: str, program: Program) -> None:
    program.options["start_new_session"] = True
    part = Killable(name, program)
    part.start()
    here.parts[name] = part


def wait_for_answers(here: World) -> None:
    wait_until(lambda: all(map(answers, here.urls)), "the node")
