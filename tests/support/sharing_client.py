"""The real client of Delta Sharing: in an environment of its own, since it wants an older Arrow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest

PYTHON = Path(sys.executable).parents[1] / "delta-sharing" / "bin" / "python"
"""Made by `make dev`."""
SUPPORT = Path(__file__).parent


def required_python() -> Path:
    """The Python that has the client; without it the test is skipped."""
    if not PYTHON.exists():
        pytest.skip("the client of Delta Sharing is not here; `make dev` installs it")
    return PYTHON


def run_beside(program: str, folder: Path, *words: str, given: str = "") -> str:
    """The last line that a program prints in the environment of the client."""
    done = subprocess.run(
        [required_python(), "-c", program, *words],
        cwd=folder,
        env={"HOME": str(folder), "PYTHONPATH": str(SUPPORT)},
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and "ModuleNotFoundError" in done.stderr:
        pytest.skip(f"{done.stderr.splitlines()[-1]}; `make dev` installs it")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


class ClientFailed(Exception):
    """What the client raised, as text."""


class SharingClient:
    """One process of the client with one profile."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def tables(self) -> list[list[str]]:
        """Share, schema and name of each."""
        return self._ask(do="tables")

    def version(self, table: str, since: str | None = None) -> int:
        return self._ask(do="version", table=table, since=since)

    def load(self, table: str, **given: Any) -> dict[str, Any]:
        """`columns`, and `rows` in the order of the answer."""
        return self._ask(do="load", table=table, **{"with": given})

    def count(self, table: str, **given: Any) -> int:
        """How many rows were loaded."""
        return self._ask(do="count", table=table, **{"with": given})

    def changes(self, table: str, **given: Any) -> dict[str, Any]:
        return self._ask(do="changes", table=table, **{"with": given})

    def _ask(self, **asked: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        if "error" in told:
            raise ClientFailed(told["error"])
        return told["told"]


class _Reached(Protocol):
    """A node, in this process or another."""

    def http(self, token: str | None = None, /) -> httpx.Client: ...


@contextmanager
def sharing_client(service: _Reached, token: str, folder: Path) -> Iterator[SharingClient]:
    """With the profile that the node gives out for the token."""
    python = required_python()
    with service.http(token) as http:
        answer = http.get("/delta-sharing/profile")
    assert answer.status_code == httpx.codes.OK
    profile = folder / "config.share"
    profile.write_bytes(answer.content)
    process = subprocess.Popen(
        [python, SUPPORT / "sharing_peer.py", profile],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder)},
    )
    with process:
        try:
            yield SharingClient(process)
        finally:
            process.kill()
