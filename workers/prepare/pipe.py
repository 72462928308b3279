"""Bytes through a command of the machine. Off unless the command is on the list of the node.

The command runs without a shell, in an empty folder, with nothing of the environment but a
search path, for a limited time; what it writes is limited as all that preparation makes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .limits import CHUNK_BYTES, PipeFailed, PipeRefused, PrepareLimits, check_size

SAID_BYTES = 2_000
"""How much of what a failed command said is kept."""
ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8"}
_GRACE_S = 5.0


def pipe(source: Path, command: tuple[str, ...], limits: PrepareLimits) -> Iterator[bytes]:
    """What the command writes when it is given the file.

    Raises:
        PipeRefused: the command is not on the list.
        PipeFailed: it cannot be started, exits with another code than 0, or takes too long.
        DecompressionTooLarge: it writes more than is taken.
    """
    if not command or command[0] not in limits.commands:
        raise PipeRefused(
            "the source pipes its data through a command that this node does not run: "
            "its administrator can allow it by name",
            command=command[0] if command else None,
        )
    with tempfile.TemporaryDirectory(prefix="pipe-", dir=source.parent) as folder:
        yield from _run(source, command, limits, Path(folder))


def _run(
    source: Path, command: tuple[str, ...], limits: PrepareLimits, folder: Path
) -> Iterator[bytes]:
    with source.open("rb") as stream:
        try:
            process = subprocess.Popen(
                command,
                stdin=stream,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        except (OSError, ValueError) as bad:
            raise PipeFailed(f"{command[0]} cannot be started ({bad})") from None
    expired = threading.Event()
    timer = threading.Timer(limits.command_seconds, _end, [process, expired])
    said = bytearray()
    listener = threading.Thread(target=_listen, args=(process, said), daemon=True)
    timer.start()
    listener.start()
    try:
        yield from _output(process, limits)
        process.wait()
        listener.join(_GRACE_S)
        _check(process, command[0], said, limits, expired)
    finally:
        timer.cancel()
        _end(process)
        process.wait()
        for end in (process.stdout, process.stderr):
            if end is not None:
                end.close()


def _output(process: subprocess.Popen[bytes], limits: PrepareLimits) -> Iterator[bytes]:
    written = 0
    while process.stdout is not None and (chunk := process.stdout.read1(CHUNK_BYTES)):  # type: ignore[attr-defined]
        written += len(chunk)
        check_size(written, limits)
        yield chunk


def _listen(process: subprocess.Popen[bytes], said: bytearray) -> None:
    with suppress(ValueError, OSError):  # closed while reading: nobody wants to know any more
        while process.stderr is not None and (chunk := process.stderr.read1(4096)):  # type: ignore[attr-defined]
            said.extend(chunk[: SAID_BYTES - len(said)])


def _end(process: subprocess.Popen[bytes], expired: threading.Event | None = None) -> None:
    """Kill the command and all it started."""
    if expired is not None:
        expired.set()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _check(
    process: subprocess.Popen[bytes],
    name: str,
    said: bytearray,
    limits: PrepareLimits,
    expired: threading.Event,
) -> None:
    if expired.is_set():
        raise PipeFailed(
            f"{name} did not end within {limits.command_seconds:g} seconds",
            command=name,
            limit="command_seconds",
            value=limits.command_seconds,
        )
    if process.returncode != 0:
        text = said.decode("utf-8", "replace").strip()
        raise PipeFailed(
            f"{name} ended with exit code {process.returncode}" + (f": {text}" if text else ""),
            command=name,
            exit_code=process.returncode,
        )
