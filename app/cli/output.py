"""What every command shares: `--json`, printing, and the table error → exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from odf_node.protocol.errors import (
    BadInput,
    Conflict,
    Damaged,
    LimitExceeded,
    NodeError,
    NotFound,
    Refused,
)
from odf_node.protocol.multihash import HashMismatch

from ..client.text import one_line
from ..client.urls import UnsupportedUrl

F = TypeVar("F", bound=Callable[..., Any])

MAX_MESSAGE_CHARS = 2000
PROBLEM_TYPE = "urn:odf-node:problem:"
DONE, FAILED, USAGE, MISSING, REFUSED, CONFLICT, DAMAGED = 0, 1, 2, 3, 4, 5, 6
INTERRUPTED = 130
"""As shells have it for a program that Ctrl-C ended."""

EXIT_CODES: dict[type[NodeError], int] = {
    HashMismatch: DAMAGED,
    UnsupportedUrl: USAGE,
    NotFound: MISSING,
    Refused: REFUSED,
    Conflict: CONFLICT,
    Damaged: DAMAGED,
    LimitExceeded: FAILED,
    BadInput: FAILED,
    NodeError: FAILED,
}
"""The class of an error, or its nearest ancestor, decides."""


def exit_code(error: BaseException) -> int:
    """0 is never given: an error is never success."""
    for kind in type(error).__mro__:
        if kind in EXIT_CODES:
            return EXIT_CODES[kind]
    return error.exit_code if isinstance(error, click.ClickException) else FAILED


def report_error(error: Exception, *, as_json: bool) -> int:
    """Say on stderr what happened; the exit code. Anything unforeseen keeps its traceback."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort):
        interrupted = isinstance(error.__cause__, KeyboardInterrupt)
        click.echo("interrupted" if interrupted else "aborted", err=True)
        return INTERRUPTED if interrupted else FAILED
    if isinstance(error, BrokenPipeError):  # the reader, `head` say, has all that it wants
        _silence_stdout()
        return DONE
    if not isinstance(error, NodeError | click.ClickException | OSError):
        raise error
    code = exit_code(error)
    if as_json:
        click.echo(json.dumps(problem(error, code), ensure_ascii=False), err=True)
    elif isinstance(error, click.ClickException):
        error.show()
    else:
        click.echo(f"odf-node: {one_line(message_of(error), MAX_MESSAGE_CHARS)}", err=True)
    return code


def problem(error: Exception, code: int) -> dict[str, Any]:
    """An error as one JSON object, in the manner of RFC 9457; facts stand beside."""
    facts = error.facts if isinstance(error, NodeError) else {}
    return {
        **facts,
        "type": PROBLEM_TYPE + type(error).__name__,
        "title": _title(error),
        "detail": message_of(error),
        "exitCode": code,
    }


def message_of(error: Exception) -> str:
    """One sentence for a person."""
    if isinstance(error, NodeError):
        return error.message
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.strerror:
        path = "" if error.filename is None else f"{error.filename}: "
        return f"{path}{error.strerror}"
    return str(error) or type(error).__name__


def _title(error: Exception) -> str:
    branches = (NotFound, Refused, Conflict, Damaged, LimitExceeded, BadInput)
    return next((kind.__name__ for kind in branches if isinstance(error, kind)), "Failed")


def _silence_stdout() -> None:
    # the reader is gone; the interpreter must not complain about it again at exit
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_option(command: F) -> F:
    """`--json`: one JSON document on stdout, errors as one on stderr."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def print_json(value: Any) -> None:
    """One document; keys in the order given."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))
