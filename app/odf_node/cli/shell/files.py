"""Files that commands read and write: standard input, whole files, files that appear when whole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

import click

from ...client.nodes.limits import too_much

STDIN = "-"
INPUT = click.Path(exists=True, dir_okay=False, path_type=Path)
"""The type of an argument that names a file to read: one that is not there is wrong usage."""


def read_file(name: str, limit: int) -> bytes:
    """Return the content of a file. Raise `TooMuch` if it has more than `limit` bytes."""
    with opened_file(name) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise too_much(f"the size of {name}", limit)
    return content


@contextmanager
def opened_file(name: str) -> Iterator[BinaryIO]:
    """Open a file for reading; `-` is standard input.

    Raises:
        click.UsageError: the file cannot be opened.
    """
    if name == STDIN:
        yield sys.stdin.buffer
        return
    try:
        stream = Path(name).open("rb")  # noqa: SIM115
    except OSError as error:
        raise click.UsageError(f"cannot open {name}: {error.strerror}") from None
    with stream:
        yield stream


@contextmanager
def whole_file(output: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing, which appears under its name only when it is complete.

    A device or pipe is written directly.
    """
    if output.exists() and not output.is_file():
        with output.open("wb") as file:
            yield file
        return
    part = output.with_name(output.name + ".part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
