"""Helpers of all commands: the option `--json`, printing, and the exit code of each error.

Progress bars on stderr, if stderr is a terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odf_protocol.errors import (
    BadInput,
    Conflict,
    Damaged,
    LimitExceeded,
    NodeError,
    NotFound,
    Refused,
    code_of,
)
from odf_storage.runtime.extras import extra_missing
from odf_storage.stores.objects.layout import DatabaseUnavailable

from ...client.nodes.limits import one_line
from ...client.transfer.receive import UNWATCHED, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn, Task, TaskID


F = TypeVar("F", bound=Callable[..., Any])

MAX_MESSAGE_CHARS = 2000
PROBLEM_TYPE = "urn:odf-node:problem:"
DONE, FAILED, USAGE, MISSING, REFUSED, CONFLICT, DAMAGED = 0, 1, 2, 3, 4, 5, 6
INTERRUPTED = 130
"""Exit code that shells use for a program that Ctrl-C ended."""

EXIT_CODES = {
    # families: what is wrong with a dataset, wherever it came from, not with what the user wrote
    "ChainRuleBroken": FAILED,
    "DataDoesNotMatchMetadata": FAILED,
    "MalformedBlock": FAILED,
    "MalformedBuffer": FAILED,
    "MalformedMessage": FAILED,
    "MalformedTile": FAILED,
    "NoNodeThere": FAILED,
    "NotKnown": FAILED,
    "SignatureWrong": FAILED,
    "HashMismatch": DAMAGED,
    # what is not installed here
    "BucketsNeedAnExtra": FAILED,
    "TelemetryNotInstalled": FAILED,
    # the branches
    "BadInput": USAGE,
    "NotFound": MISSING,
    "Refused": REFUSED,
    "Conflict": CONFLICT,
    "Damaged": DAMAGED,
}
"""Exit code by code of the error, or else by its class, family or branch. All others are 1."""

BUSY = frozenset({408, 413, 425, 429, 431})
"""Statuses of refusals that say nothing against the words of the request: too much, or too soon."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error. It is never 0."""
    if not isinstance(error, NodeError):
        return error.exit_code if isinstance(error, click.ClickException) else FAILED
    if error.facts.get("status") in BUSY:
        return FAILED
    names = (error.code, *(kind.__name__ for kind in type(error).__mro__))
    return next((EXIT_CODES[name] for name in names if name in EXIT_CODES), FAILED)


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
        "type": PROBLEM_TYPE + code_of(error),
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

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_option(command: F) -> F:
    """Add `--json`: a result is one JSON document on stdout, an error is one on stderr."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def print_json(value: Any) -> None:
    """Print one JSON document. The keys keep their order."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


SENT = "sent"
"""The step that counts bytes; others count rows or objects."""
IS_BYTES = "is_bytes"
"""Field of bars that count bytes."""


class _Shown:
    """Bars for blocks (by count), for objects (by bytes), and for the time of the remote commit.

    Any thread may move the bars.
    """

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._blocks: TaskID | None = None
        self._objects: TaskID | None = None
        self._objects_total = 0

    def expect_blocks(self, count: int) -> None:
        self._bars.update(self._block_bar(), total=count)

    def expect_objects(self, count: int, size: int) -> None:
        if count == 0:
            return
        if self._objects is None:
            self._objects = self._bars.add_task("objects", total=0, is_bytes=True)
        self._objects_total += size
        self._bars.update(self._objects, total=self._objects_total)

    def block(self) -> None:
        self._bars.advance(self._block_bar())

    def object_bytes(self, size: int) -> None:
        if self._objects is not None:
            self._bars.advance(self._objects, size)

    def object_done(self) -> None: ...

    def committing(self) -> None:
        self._bars.add_task("commit", total=None)

    def _block_bar(self) -> TaskID:
        if self._blocks is None:
            self._blocks = self._bars.add_task("blocks", total=None)
        return self._blocks


@contextmanager
def stepwise(*, quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield a function that shows a bar for each named step, or None if no person watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with _bars() as bars:
        steps: dict[str, TaskID] = {}

        def step(name: str, done: int, total: int) -> None:
            if name not in steps:
                _end_the_endless(bars, steps)
                steps[name] = bars.add_task(name, total=None, is_bytes=name == SENT)
            bars.update(steps[name], completed=done, total=total or None)

        yield step


def _end_the_endless(bars: Bars, steps: dict[str, TaskID]) -> None:
    """Complete bars of unknown length when a new step begins; remove those that counted nothing."""
    names = {task: name for name, task in steps.items()}
    for shown in bars.tasks:
        if shown.total is None and shown.completed:
            bars.update(shown.id, total=shown.completed)
        elif shown.total is None:
            bars.remove_task(shown.id)
            steps.pop(names[shown.id], None)


@contextmanager
def progress_bars(*, quiet: bool) -> Iterator[Progress]:
    """Yield the progress of one command. It shows bars only if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield UNWATCHED
        return
    with _bars() as bars:
        yield _Shown(bars)


def _amount_column() -> ProgressColumn:
    """Return the column that says how much is done: a count, or bytes and their speed."""
    from rich.progress import (
        DownloadColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    class Amount(ProgressColumn):
        counts, sizes, speeds = MofNCompleteColumn(), DownloadColumn(), TransferSpeedColumn()

        def render(self, task: Task) -> Text:
            if not task.fields.get(IS_BYTES):
                return self.counts.render(task)
            return Text.assemble(self.sizes.render(task), " ", self.speeds.render(task))

    return Amount()


def _bars() -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description:>8}"), BarColumn(), _amount_column())
    return Progress(*columns, console=Console(stderr=True), transient=True)
