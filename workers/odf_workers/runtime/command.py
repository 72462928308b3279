"""Commands of the machine: no shell, a restricted environment, limited time.

The output of a command is streamed; the reader limits it. The process and all its children end when
reading ends, for whatever reason.

The log of the worker; `odf_storage/runtime/logs.py` defines the format of its lines.

Limits of the preparation of inputs, and errors of steps that reject an input.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from odf_protocol.errors import LimitExceeded, NodeError
from odf_storage.runtime.logs import line as line
from odf_storage.runtime.logs import set_up as set_up

CHUNK_BYTES = 256 * 1024
SAID_BYTES = 2_000
"""Bytes of a failed command's error output that are kept."""
_GRACE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to run, its folder, and its time limit. `failure` makes the error of one that
    fails."""

    arguments: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    seconds: float
    failure: Callable[..., NodeError]
    stdin: Path | None = None

    @property
    def name(self) -> str:
        return self.arguments[0]


@dataclass(slots=True)
class _Run:
    process: subprocess.Popen[bytes]
    said: bytearray = field(default_factory=bytearray)
    expired: threading.Event = field(default_factory=threading.Event)


def output_of(command: Command) -> Iterator[bytes]:
    """Run the command, and yield its output.

    Raises:
        command.failure: it cannot be started, takes too long, or exits with another code
            than 0 (fact `exit_code`).
    """
    run = _Run(_started(command))
    timer = threading.Timer(command.seconds, _expire, [run])
    listener = threading.Thread(target=_listen, args=(run,), daemon=True)
    timer.start()
    listener.start()
    try:
        while chunk := run.process.stdout.read1(CHUNK_BYTES):  # type: ignore[union-attr]
            yield chunk
        run.process.wait()
        listener.join(_GRACE_S)
        _check(command, run)
    finally:
        timer.cancel()
        _kill(run)
        run.process.wait()
        run.process.stdout.close()  # type: ignore[union-attr]
        listener.join(_GRACE_S)
        run.process.stderr.close()  # type: ignore[union-attr]


def _started(command: Command) -> subprocess.Popen[bytes]:
    stdin = command.stdin or Path(os.devnull)
    with stdin.open("rb") as stream:
        try:
            return subprocess.Popen(
                list(command.arguments),
                stdin=stream,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=command.folder,
                env=dict(command.environment),
                start_new_session=True,
            )
        except (OSError, ValueError) as bad:
            raise command.failure(
                f"{command.name} cannot be started ({bad})", command=command.name
            ) from None


def _listen(run: _Run) -> None:
    with suppress(ValueError, OSError):  # closed meanwhile, so the output is no longer needed
        while chunk := run.process.stderr.read1(4096):  # type: ignore[union-attr]
            run.said.extend(chunk[: SAID_BYTES - len(run.said)])


def _expire(run: _Run) -> None:
    run.expired.set()
    _kill(run)


def _kill(run: _Run) -> None:
    """Kill the command and all its children; they form a separate process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(run.process.pid, signal.SIGKILL)


def _check(command: Command, run: _Run) -> None:
    if run.expired.is_set():
        raise command.failure(
            f"{command.name} did not end within {command.seconds:g} seconds",
            command=command.name,
            seconds=command.seconds,
        )
    code = run.process.returncode
    if code != 0:
        text = run.said.decode("utf-8", "replace").strip()
        raise command.failure(
            f"{command.name} ended with exit code {code}" + (f": {text}" if text else ""),
            command=command.name,
            exit_code=code,
        )


LOGGER = logging.getLogger("odf.worker")


RATIO_FLOOR_BYTES = 10 << 20
"""Every archive may unpack to this size, so that short files of zeros are not taken for an
attack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareLimits:
    """Limits of a step: bytes of its output, ratio of output to input, entries of an archive;
    commands that may run, by the exact name used in the source, and the time limit of each in
    seconds."""

    max_bytes: int = 16 << 30
    max_ratio: int = 1_000
    max_entries: int = 10_000
    commands: frozenset[str] = frozenset()
    command_seconds: float = 600.0


def within(chunks: Iterator[bytes], limits: PrepareLimits, *, read: list[int]) -> Iterator[bytes]:
    """Yield the chunks, as long as their size is allowed for the input read so far (`read[0]`
    bytes).

    Raises:
        DecompressionTooLarge: by size, or by ratio.
    """
    written = 0
    for chunk in chunks:
        written += len(chunk)
        check_size(written, limits)
        if written > max(RATIO_FLOOR_BYTES, limits.max_ratio * read[0]):
            raise LimitExceeded(
                "DecompressionTooLarge",
                f"the archive grows more than {limits.max_ratio} times when it is unpacked",
                limit="max_ratio",
                value=limits.max_ratio,
                setting="ODF_WORKER_MAX_UNPACK_RATIO",
            )
        yield chunk


def check_size(written: int, limits: PrepareLimits) -> None:
    """Raise `DecompressionTooLarge` above the limit in bytes."""
    if written > limits.max_bytes:
        raise LimitExceeded(
            "DecompressionTooLarge",
            f"more than {limits.max_bytes} bytes come out of the preparation",
            limit="max_bytes",
            value=limits.max_bytes,
            setting="ODF_WORKER_MAX_FETCHED_BYTES",
        )
