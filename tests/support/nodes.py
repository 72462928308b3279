"""Nodes as processes: `odf-node serve` with its worker, as a person would start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner, Result
from servers import free_port, wait_until

from odf_node.cli.main import main

COMMAND = Path(sys.executable).parent / "odf-node"
SERVE = (COMMAND, "serve")


@dataclass(frozen=True)
class RunningNode:
    """A served node: where it is, where it keeps its data, and how to act on it."""

    url: str
    data: Path
    process: subprocess.Popen[bytes]
    env: dict[str, str] = field(default_factory=dict)
    """What it was told by the environment."""
    tokens: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Those that were made."""

    def token(self, account: str = "kamu", *words: str) -> str:
        """A bearer token of the account, made by the administrator's command when first asked."""
        asked = (account, *words)
        if asked not in self.tokens:
            create = ["token", "create", "--account", account, "--data", str(self.data)]
            # in this process: a command takes a second to start
            done = CliRunner().invoke(main, [*create, *words, "--json"], env=self.env)
            self.tokens[asked] = str(json.loads(done.stdout)["token"])
        return self.tokens[asked]

    def http(self, token: str | None = None) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=90)


def odf(*words: object, expect: int | None = 0, **env: str) -> Result:
    """What `odf-node` does with these words, in this process, as a command takes a second to start;
    insists on the exit code unless `expect` is None. `test_installed` and
    `test_first_minutes` run it as a program."""
    done = CliRunner().invoke(main, [*map(str, words)], env=env)
    code = done.exit_code
    assert expect in (None, code), f"{words}: {code}\n{done.stdout}{done.stderr}"
    return done


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/system/health", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def served(
    data: Path, *words: str, program: Sequence[str | Path] = SERVE, **env: Any
) -> Iterator[RunningNode]:
    """Serve `data` on a free port until the block ends."""
    data.mkdir(parents=True, exist_ok=True)
    port = free_port()
    where = ["--host", "127.0.0.1", "--port", str(port), "--data", str(data)]
    with (data.parent / f"{data.name}.log").open("ab") as log:
        process = subprocess.Popen(
            [*program, *where, *words], env={**os.environ, **env}, stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(url) or process.poll() is not None, "the node", seconds=300)
        yield RunningNode(url, data, process, env)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)
