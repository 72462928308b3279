"""A process that has everything imported and forks one child a crash: what runs in it may die.

One request a line on standard input, one answer a line on standard output, both JSON:

    {"scenario": "commit", "alias": "kamu/foo", "at": 3, "stores": {"data": "…", …}}
    {"killed": true, "steps": ["file mkdir", …], "said": ["f1620…"], "trouble": null}
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import python_path

ROOT = Path(__file__).parents[2]
NEEDED = ("psycopg", "sqlalchemy.dialects.postgresql.psycopg", "odf_storage.stores.objects.s3")
"""What stores import when they are opened."""


@dataclass(frozen=True)
class Crash:
    """How one child ended. `steps` are those it was about to take or took."""

    killed: bool
    steps: list[str]
    said: list[str]
    trouble: str | None


class CrashServer:
    """The parent's end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, **request: Any) -> Crash:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the crash server itself has ended"
        return Crash(**json.loads(line))


@contextmanager
def crash_server(**env: str) -> Iterator[CrashServer]:
    path = python_path(ROOT / "tests/support", ROOT / "tests/torture")
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **env, "PYTHONPATH": path},
    ) as process:
        yield CrashServer(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=60)


def _serve() -> None:
    import boto3
    import crash_work  # everything a child needs, imported once
    from chain_maker import parquet, table

    for name in NEEDED:
        importlib.import_module(name)
    _keep_models()
    boto3.session.Session().client("s3", region_name="us-east-1")  # reads its models, once
    parquet(table(0, 1))  # imports pandas, once
    for line in sys.stdin:
        print(json.dumps(_fork(json.loads(line), crash_work.run)), flush=True)


def _keep_models() -> None:
    """What botocore reads of its own is read once, by the parent of all."""
    from botocore.loaders import JSONFileLoader

    read, known = JSONFileLoader.load_file, dict[str, Any]()

    def once(loader: Any, path: str) -> Any:
        if path not in known:
            known[path] = read(loader, path)
        return known[path]

    JSONFileLoader.load_file = once


def _fork(request: dict[str, Any], run: Any) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 0
        try:
            run(request, lambda word, text: os.write(writing, f"{word} {text}\n".encode()))
        except BaseException:
            os.write(writing, f"trouble {json.dumps(traceback.format_exc())}\n".encode())
            code = 1
        os._exit(code)
    os.close(writing)
    told: dict[str, list[str]] = {"step": [], "said": [], "trouble": []}
    with os.fdopen(reading) as lines:
        for line in lines:
            word, _, text = line.rstrip("\n").partition(" ")
            told[word].append(text)
    _, status = os.waitpid(child, 0)
    trouble = json.loads(told["trouble"][0]) if told["trouble"] else None
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) and trouble is None:
        trouble = f"the child ended with {status}"
    return {
        "killed": os.WIFSIGNALED(status),
        "steps": told["step"],
        "said": told["said"],
        "trouble": trouble,
    }


if __name__ == "__main__":
    _serve()
