"""Bytes through a command of the machine. Off unless the command is on the list of the node.

The command runs without a shell, in an empty folder, with nothing of the environment but a
search path, for a limited time; what it writes is limited as all that preparation makes.
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
    """Raises `PipeRefused` if the command is not on the list."""
    if not arguments or arguments[0] not in limits.commands:
        raise PipeRefused(
            "the source pipes its data through a command that this node does not run: "
            "its administrator can allow it by name",
            command=arguments[0] if arguments else None,
            setting="ODF_WORKER_PIPE_COMMANDS",
        )


def pipe(source: Path, arguments: tuple[str, ...], limits: PrepareLimits) -> Iterator[bytes]:
    """What the command writes when it is given the file.

    Raises:
        PipeRefused: the command is not on the list.
        PipeFailed: it cannot be started, exits with another code than 0, or takes too long.
        DecompressionTooLarge: it writes more than is taken.
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
