"""What a person is told beside a result: a warning in programs, a line of the command."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Notice(UserWarning):
    """A warning for the person who runs a command or program."""


@contextmanager
def as_lines() -> Iterator[None]:
    """Print each notice as one line on stderr, once; other warnings as usual."""
    told: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, Notice):
                usual(message, category, filename, lineno, file, line)
            elif str(message) not in told:
                told.add(str(message))
                sys.stderr.write(f"odf-node: warning: {message}\n")

        warnings.simplefilter("always", Notice)
        warnings.showwarning = show
        yield
