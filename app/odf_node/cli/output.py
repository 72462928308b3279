"""Helpers of all commands: the option `--json`, printing, and the exit code of each error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from odf_protocol.errors import (
    BadInput,
    Conflict,
    Damaged,
    LimitExceeded,
    NodeError,
    NotFound,
    Refused,
)
from odf_protocol.multihash import HashMismatch
from odf_storage.runtime.extras import extra_missing
from odf_storage.stores.objects.storage_failures import DatabaseUnavailable

from ..client.text import one_line
from ..client.urls import UnsupportedUrl

F = TypeVar("F", bound=Callable[..., Any])

MAX_MESSAGE_CHARS = 2000
PROBLEM_TYPE = "urn:odf-node:problem:"
DONE, FAILED, USAGE, MISSING, REFUSED, CONFLICT, DAMAGED = 0, 1, 2, 3, 4, 5, 6
INTERRUPTED = 130
"""Exit code that shells use for a program that Ctrl-C ended."""

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
"""Exit code by class of error. A class without an entry has the code of its nearest ancestor."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error. It is never 0."""
    for kind in type(error).__mro__:
        if kind in EXIT_CODES:
            return EXIT_CODES[kind]
    return error.exit_code if isinstance(error, click.ClickException) else FAILED


def report_error(error: Exception, *, as_json: bool) -> int:
    """Print the error on stderr and return the exit code. Raise an unexpected error again, with its
    traceback."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort):
        interrupted = isinstance(error.__cause__, KeyboardInterrupt)
        click.echo("interrupted" if interrupted else "aborted", err=True)
        return INTERRUPTED if interrupted else FAILED
    if isinstance(error, BrokenPipeError):  # the reader, such as `head`, needs no more
        _silence_stdout()
        return DONE
    if isinstance(error, ModuleNotFoundError):
        error = extra_missing(error) or error
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
    """Return an error as one JSON object in the style of RFC 9457; its facts are further fields."""
    facts = error.facts if isinstance(error, NodeError) else {}
    return {
        **facts,
        "type": PROBLEM_TYPE + type(error).__name__,
        "title": _title(error),
        "detail": message_of(error),
        "exitCode": code,
    }


def message_of(error: Exception) -> str:
    """Return the error as one sentence for a person."""
    if isinstance(error, DatabaseUnavailable):
        return error.for_operator
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
    # the reader closed the pipe; otherwise the interpreter would report that again at exit
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_option(command: F) -> F:
    """Add `--json`: a result is one JSON document on stdout, an error is one on stderr."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def print_json(value: Any) -> None:
    """Print one JSON document. The keys keep their order."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))
