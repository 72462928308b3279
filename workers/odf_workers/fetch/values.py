"""The values of a fetch: request, rules, result, and errors.

Check addresses of sources with `runtime/networks.py`, and raise the errors of a fetch.

Templates in source definitions (`odf_protocol/sources/templates.py`) and their values: the first
alternative with a value is used; an empty variable is a value. Text is expanded once, left to
right: the value of a variable is never read as a template.

Errors of a fetch show the source as it is written, never the values of its templates.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from odf_protocol.errors import BadInput, LimitExceeded, NodeError, RemoteFailed
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import SetPollingSource, SourceState
from odf_protocol.metadata.sources import FetchStep
from odf_protocol.sources.templates import CLOSE, OPEN, alternatives, templates
from odf_storage.runtime.networks import HostRefused, Resolver, reachable, resolved

from ..engines.remote.runtimes import ContainerRules
from ..plan.poll import SOURCE_NAME
from ..readers.formats.plain import PlainTables
from .taken import FileLists, FilesTaken

ETAG = "odf/etag"
LAST_MODIFIED = "odf/last-modified"


class EventTimeNotFound(BadInput):
    """The event time is not where the source declares it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRules:
    """Rules of the administrator. `networks` are ranges besides the public ones, `roots` folders of
    local files, `buckets` URLs of buckets or of prefixes in them, `containers` how images run
    (refused without a runtime), `variables` what templates may read. `lists` remembers which files
    of tables were read; of new files, at most `max_files` are read, with `threads` in parallel."""

    networks: tuple[str, ...] = ()
    roots: tuple[Path, ...] = ()
    buckets: tuple[str, ...] = ()
    lists: FileLists | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    containers: ContainerRules = field(default_factory=ContainerRules)
    mark_key: bytes = field(default=b"", repr=False)
    """Key of the marks of addresses with values of templates."""
    max_bytes: int = 16 << 30
    max_files: int = 100_000
    threads: int = 4
    connect_s: float = 30.0
    idle_s: float = 60.0
    total_s: float = 3600.0
    resolve: Resolver = resolved
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """One fetch: the present source state, the time of the poll, a folder for the bytes; and the
    source, for kinds whose reading depends on its merge strategy."""

    state: SourceState | None
    system_time: Instant
    folder: Path
    rules: FetchRules
    source: SetPollingSource | None = None
    taken: FilesTaken = field(default_factory=FilesTaken)
    """Files of a folder that were taken before."""
    content_of: Callable[[Path], str] = lambda _: ""
    """Returns the hash of what a reader reads of a file, for files that were packed anew. Equal
    ones give equal hashes."""
    late_files: bool = False
    """Whether files that were never taken are taken although they sort before the last one."""
    again: tuple[str, ...] = ()
    """Names of files to be taken although they were taken before."""
    marks: Mapping[str, Any] = field(default_factory=dict)
    """What the last block notes of its bytes (`odf_protocol/sources/source_marks.py`)."""
    warnings: list[str] = field(default_factory=list)
    """What the fetch has to say to the author of the source, new bytes or not."""

    def state_of(self, kind: str) -> str | None:
        """Return the value of the state if it is of that kind."""
        return self.state.value if self.state is not None and self.state.kind == kind else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """New bytes. `name` is the one of the chosen file, for sources of many files. For a `table`,
    `path` is the folder with its files. `warnings` are for the receipt."""

    path: Path
    state: SourceState | None
    event_time: Instant
    has_more: bool = False
    name: str | None = None
    table: PlainTables | None = None
    warnings: tuple[str, ...] = ()
    marks: Mapping[str, Any] = field(default_factory=dict)
    """What the block notes of the bytes (`odf_protocol/sources/source_rules.py`)."""


def state(kind: str, value: str) -> SourceState:
    return SourceState(source_name=SOURCE_NAME, kind=kind, value=value)


@dataclass(slots=True)
class Deadline:
    """The time limit of a whole fetch."""

    rules: FetchRules
    began: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        if time.monotonic() - self.began > self.rules.total_s:
            raise RemoteFailed(
                "SourceUnreachable",
                f"the source was not read within {self.rules.total_s:g} seconds",
                seconds=self.rules.total_s,
                setting="ODF_WORKER_FETCH_S",
            )


def spooled(
    chunks: Iterable[bytes], path: Path, rules: FetchRules, deadline: Deadline, *, before: int = 0
) -> Path:
    """Write the bytes to a file; `before` is the number of bytes that the source gave earlier.

    Raises:
        FetchedTooLarge, SourceUnreachable: a limit of size or time is exceeded.
    """
    size = before
    with path.open("wb") as out:
        for chunk in chunks:
            size += len(chunk)
            check_size(size, rules)
            deadline.check()
            out.write(chunk)
    return path


def check_size(size: int, rules: FetchRules) -> None:
    if size > rules.max_bytes:
        raise LimitExceeded(
            "FetchedTooLarge",
            f"the source gives more than {rules.max_bytes} bytes",
            limit="max_bytes",
            value=rules.max_bytes,
            setting="ODF_WORKER_MAX_FETCHED_BYTES",
        )


def allowed_addresses(host: str, port: int, rules: FetchRules) -> list[str]:
    """Return the addresses to connect to, in the order of the resolver.

    Raises:
        SourceUnreachable: the name has no address.
        SourceRefused: fetching from one of its addresses is not allowed.
    """
    try:
        return reachable(host, port, rules.networks, rules.resolve)
    except (OSError, UnicodeError, ValueError) as bad:
        raise RemoteFailed(
            "SourceUnreachable", f"the host {host!r} has no address ({bad})", host=host
        ) from None
    except HostRefused as refused:
        raise BadInput(
            "SourceRefused", refused.message, host=host, setting="ODF_WORKER_FETCH_NETWORKS"
        ) from None


MAX_CHARS = 1 << 20
"""Limit of the characters of an expanded text."""


def expand(text: str, variables: Mapping[str, str], *, is_address: bool = False) -> str:
    """Return the text with every template replaced by its value.

    A value stands in an address as it is, since it may be a whole one, several parameters or a part
    of a path. Only `#` is refused, as no server receives what follows it.

    Raises:
        InvalidPattern: the facts name the token.
        ValueNotFound: the facts name the inner text of the template.
        MalformedSource: a value would cut the address.
    """
    parts, at = [], 0
    for begin, end in templates(text):
        inner = text[begin + len(OPEN) : end].strip()
        value = _value(inner, variables)
        if is_address and "#" in value:
            raise BadInput(
                "MalformedSource",
                f"the value of the template {inner!r} has a '#', which would cut the address: "
                "write %23, and encode what else belongs to the value (%26 for &, %2F for /)",
                detail=inner,
            )
        parts += [text[at:begin], value]
        at = end + len(CLOSE)
    expanded = "".join([*parts, text[at:]])
    if len(expanded) > MAX_CHARS:
        raise BadInput(
            "ExpansionTooLong", f"a template expands to more than {MAX_CHARS} characters"
        )
    return expanded


def _value(inner: str, variables: Mapping[str, str]) -> str:
    values = (variables.get(t) if is_variable else t for is_variable, t in alternatives(inner))
    found = next((value for value in values if value is not None), None)
    if found is None:
        raise BadInput(
            "ValueNotFound",
            f"the template {inner!r} has no value: set one of its variables",
            detail=inner,
        )
    return found


HIDDEN = "…"
_OF_THE_SOURCE = frozenset({"host", "path", "scheme", "image", "reason", "given"})
"""Facts that are parts of an expanded text; a message repeats such a part only with its fact."""


def as_written(error: NodeError, step: FetchStep) -> NodeError:
    """Return the error without text that is not written in the source, since it may be part of a
    secret.

    For example, a slash in a password turns the password's first half into a port.
    """
    source = msgspec.json.encode(step).decode()
    if "${{" not in source:
        return error
    known, message, facts = source.lower(), error.message, dict(error.facts)
    for name in _OF_THE_SOURCE & facts.keys():
        part = str(facts[name])
        if part.lower() not in known:
            message = message.replace(repr(part), repr(HIDDEN)).replace(part, HIDDEN)
            del facts[name]
    return error if facts == error.facts else type(error)(message, **facts)


@contextmanager
def saying(hidden: Sequence[str], *, is_template: bool) -> Iterator[None]:
    """Remove values of templates from errors of a store. If an error is about a file, its `reason`
    concerns the file, not the source, and stays in the message."""
    try:
        yield
    except NodeError as bad:
        if not is_template:
            raise
        if "key" in bad.facts:
            bad.facts.pop("reason", None)
        bad.facts = {name: _without(hidden, value) for name, value in bad.facts.items()}
        bad.args = tuple(_without(hidden, each) for each in bad.args)
        raise


def _without(hidden: Sequence[str], value: object) -> object:
    if isinstance(value, str):
        for text in hidden:
            value = value.replace(text, HIDDEN)
    return value
