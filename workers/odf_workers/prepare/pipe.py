"""Pass bytes through a command of the machine. The node must allow the command by name.

The command runs without a shell, in an empty folder, with only a search path and a locale in its
environment, for a limited time; the limits of preparation apply to its output.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..runtime.command import Command, output_of
from ..runtime.input_limits import PipeFailed, PipeRefused, PrepareLimits, check_size

ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8"}


def check_allowed(arguments: tuple[str, ...], limits: PrepareLimits) -> None:
    """Raise `PipeRefused` if the command is not on the list."""
    if not arguments or arguments[0] not in limits.commands:
        raise PipeRefused(
            "the source pipes its data through a command that this node does not run: "
            "its administrator can allow it by name",
            command=arguments[0] if arguments else None,
            setting="ODF_WORKER_PIPE_COMMANDS",
        )


def pipe(source: Path, arguments: tuple[str, ...], limits: PrepareLimits) -> Iterator[bytes]:
    """Yield the command's output for the file as its input.

    Raises:
        PipeRefused: the command is not on the list.
        PipeFailed: it cannot be started, its exit code is not 0, or it takes too long.
        DecompressionTooLarge: its output exceeds the limits.
    """
    check_allowed(arguments, limits)
    written = 0
    with tempfile.TemporaryDirectory(prefix="pipe-", dir=source.parent) as folder:
        command = Command(
            arguments=arguments,
            stdin=source,
            folder=Path(folder),
            environment=ENVIRONMENT,
            seconds=limits.command_seconds,
            failure=PipeFailed,
        )
        for chunk in output_of(command):
            written += len(chunk)
            check_size(written, limits)
            yield chunk
