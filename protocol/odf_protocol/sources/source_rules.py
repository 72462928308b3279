"""Checks of a source definition, which refuse a source that could never read any batch.

Chains of other writers may contain such sources; they are refused when they are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ..chain.state import Vocab
from ..columns.arrow_digest import UnsupportedColumn, beginnings
from ..columns.arrow_schema import to_arrow
from ..ddl import parse_ddl
from ..errors import BadInput
from ..kartothek import source as kartothek
from ..metadata.events import AddPushSource, MetadataEvent, SetPollingSource
from ..metadata.sources import (
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    FetchStep,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
    MergeStrategyChangelogStream,
    MergeStrategyUpsertStream,
    ReadStep,
    ReadStepCsv,
)
from .csv_header import UTF8, encoding_of
from .source_options import check_options, options_of
from .templates import check_templates
from .time_patterns import pattern_of

MAX_PATTERN_CHARS = 1_000
"""Limit in characters of a regular expression for event times."""
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade"})
"""Headers that belong to the connection; a source may not set them."""
SCHEMES = ("http", "https", "file", "ftp", "ftps", *kartothek.SCHEMES)
"""Schemes of addresses that can be polled."""


AS_TEXT = (
    "declare it as String, which stores lists, objects and maps as JSON (of JSON files, if the "
    "schema has the attribute `odf-node/jsonNumbers: text`)"
)
"""What to do with a column for whose type there is no logical hash."""
FINER_UNITS = {"us": "microseconds", "ns": "nanoseconds"}
"""Units of instants that are stored in milliseconds."""


def check_definition(event: MetadataEvent, vocab: Vocab) -> None:
    """Check that batches of a source can be read; other events are accepted. `vocab` is that of the
    dataset.

    Raises:
        Unsupported, UnsupportedPattern, UnsupportedSchema, UnknownSourceOption, KeyNotDeclared,
        UnfitSource, MalformedAddress, MalformedSource, InvalidPattern.
    """
    if not isinstance(event, AddPushSource | SetPollingSource):
        return
    check_read_step(event.read)
    check_options(event.read)
    declared = declared_columns(event.read)
    if declared is not None and event.preprocess is None:
        # Columns that clash with system columns get an underscore if no schema names them.
        renamed = [f"_{name}" for name in declared.names] if event.read.schema is None else []
        _check_hashed(declared)
        _check_units(declared)
        _check_system_columns(event, declared, vocab)
        _check_key(event, [*declared.names, *renamed, vocab.event_time_column])
    if isinstance(event, SetPollingSource):
        _check_fetch(event)


def check_read_step(step: ReadStep) -> None:
    """Check a read step. Raises `Unsupported`, `UnsupportedPattern`, `UnknownSourceOption`."""
    text_encoding(step)
    for option in ("date_format", "timestamp_format"):
        pattern_of(getattr(step, option, None))
    options_of(step)
    if isinstance(step, ReadStepCsv):
        csv_characters(step)


def text_encoding(step: ReadStep) -> str:
    """Return Python's codec for the files of a step; UTF-8 if it declares none. Raises
    `Unsupported`."""
    declared = getattr(step, "encoding", None)
    if declared is None:
        return UTF8
    found = encoding_of(declared)
    if found is None:
        raise BadInput(
            "Unsupported",
            f"the encoding {declared[:100]!r} is not known; known are utf8, utf16, utf32, "
            "iso-8859-1 to -16, windows-1250 to -1258, IBM's code pages, and those of Chinese, "
            "Japanese, Korean, Russian and Thai",
            option="encoding",
        )
    return found


def csv_characters(step: ReadStepCsv) -> tuple[str, str, str | None]:
    """Return separator, quote and escape of CSV files. Raises `Unsupported`."""
    escape = None if step.escape == "" else _character("escape", step.escape, "\\")
    return (
        _character("separator", step.separator, ","),
        _character("quote", step.quote, '"'),
        escape,
    )


def _character(option: str, value: str | None, default: str) -> str:
    if value is None:
        return default
    if len(value) != 1 or not value.isascii() or value in "\r\n":
        raise BadInput(
            "Unsupported", f"Csv {option} must be one ASCII character, not {value!r}", option=option
        )
    return value


def declared_columns(step: ReadStep) -> pa.Schema | None:
    """Return the declared columns of a read step, in either form. Raises `UnsupportedSchema`."""
    if step.schema is not None:
        return to_arrow(step.schema)
    if step.ddl_schema is not None:
        return to_arrow(parse_ddl(step.ddl_schema))
    return None


def _check_hashed(declared: pa.Schema) -> None:
    """Check that the values of all columns can be hashed. Raises `Unsupported`."""
    try:
        beginnings(declared)
    except UnsupportedColumn as problem:
        raise BadInput("Unsupported", f"{problem.message}: {AS_TEXT}", **problem.facts) from None


def _check_units(declared: pa.Schema) -> None:
    """Check that no column promises digits of times that are not kept. Raises `Unsupported`."""
    for field in declared:
        if pa.types.is_timestamp(field.type) and field.type.unit in FINER_UNITS:
            raise BadInput(
                "Unsupported",
                f"column `{field.name}` is declared in {FINER_UNITS[field.type.unit]}, and times "
                "are stored in milliseconds: declare the unit Millisecond (a warning says if "
                "digits are cut), or String or Int64 to keep every digit",
                column=field.name,
            )


def _check_system_columns(
    event: AddPushSource | SetPollingSource, declared: pa.Schema, vocab: Vocab
) -> None:
    """Check the declared columns that have the names of system columns. Columns of a `ddlSchema`
    are renamed or converted where they clash. Raises `UnfitSource`."""
    op, at = vocab.operation_type_column, vocab.event_time_column
    takes = isinstance(event.merge, MergeStrategyChangelogStream | MergeStrategyUpsertStream)
    kind = type(event.merge).__name__.removeprefix("MergeStrategy")
    if takes and op in declared.names and not pa.types.is_integer(declared.field(op).type):
        raise _unfit(op, f"the operation column `{op}` has to be a whole number, such as Int32")
    if isinstance(event.merge, MergeStrategyChangelogStream) and op not in declared.names:
        raise _unfit(op, f"a {kind} takes the operation of each row: declare `{op}` as an Int32")
    if event.read.schema is None:
        return
    for name in (vocab.offset_column, vocab.system_time_column, *([] if takes else [op])):
        if name in declared.names:
            raise _unfit(
                name,
                f"column `{name}` is written by the node: leave it out, or give the system column "
                "another name by SetVocab",
            )
    if at in declared.names:
        found = declared.field(at).type
        if not (pa.types.is_timestamp(found) or pa.types.is_date(found)):
            raise _unfit(at, f"event time column `{at}` has to be a Date or a Timestamp")


def _unfit(column: str, message: str) -> BadInput:
    return BadInput("UnfitSource", message, column=column)


def _check_key(event: AddPushSource | SetPollingSource, columns: Sequence[str]) -> None:
    wanted = [
        *(getattr(event.merge, "primary_key", None) or ()),
        *(getattr(event.merge, "compare_columns", None) or ()),
    ]
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise BadInput(
            "KeyNotDeclared",
            f"the merge strategy names the column `{missing[0]}`, which is not among those that "
            "the source declares",
            column=missing[0],
        )


def _check_fetch(event: SetPollingSource) -> None:
    fetch = event.fetch
    for text in _templated(fetch):
        check_templates(text)
    if isinstance(fetch, FetchStepUrl):
        check_headers([(each.name, each.value) for each in fetch.headers or ()])
    rule = getattr(fetch, "event_time", None)
    if isinstance(rule, EventTimeSourceFromPath):
        check_event_time(rule)
    if isinstance(fetch, FetchStepFilesGlob) and isinstance(rule, EventTimeSourceFromMetadata):
        raise BadInput("Unsupported", "the event time of files cannot be taken from their metadata")
    if isinstance(fetch, FetchStepUrl) and "${{" not in fetch.url:
        scheme = fetch.url.partition(":")[0].lower()
        if scheme not in SCHEMES:
            raise BadInput(
                "Unsupported",
                f"sources of the scheme {scheme[:50]!r} are not fetched; known are "
                f"{', '.join(SCHEMES)}",
                scheme=scheme[:50],
            )
    if isinstance(fetch, FetchStepUrl) and kartothek.is_address(fetch.url):
        kartothek.check_source(event)
        if "${{" not in fetch.url:
            kartothek.parse_address(fetch.url)


def _templated(fetch: FetchStep) -> Iterator[str]:
    """Yield the texts of a fetch step in which templates are expanded."""
    match fetch:
        case FetchStepUrl():
            yield fetch.url
            yield from (each.value for each in fetch.headers or ())
        case FetchStepContainer():
            yield from (fetch.image, *(fetch.command or ()), *(fetch.args or ()))
            yield from (each.value for each in fetch.env or () if each.value is not None)


def check_headers(headers: Sequence[tuple[str, str]]) -> None:
    """Check names and values that a source sends to a web server. Raises `MalformedSource`."""
    seen: set[str] = set()
    for name, value in headers:
        known = name.lower()
        if not HEADER_NAME.fullmatch(name):
            why = "its name is no word of letters, digits and hyphens"
        elif known in OWN_HEADERS:
            why = "it belongs to the connection"
        elif known in seen:
            why = "it is named twice: join the values by a comma, in one header"
        elif not value.isascii() or any(each in value for each in "\r\n\0"):
            why = "its value has a line break or a letter beyond ASCII"
        else:
            seen.add(known)
            continue
        raise BadInput(
            "MalformedSource",
            f"the source cannot send the header {name[:100]!r}: {why}",
            header=name[:100],
        )


def check_event_time(rule: EventTimeSourceFromPath) -> None:
    """Check pattern and format of event times. Raises `Unsupported`, `UnsupportedPattern`."""
    if len(rule.pattern) > MAX_PATTERN_CHARS:
        raise BadInput("Unsupported", f"a pattern has at most {MAX_PATTERN_CHARS} characters")
    try:
        around = rf"^(?s:.*?)(?:{rule.pattern})(?s:.*)$"
        pc.match_substring_regex(pa.array([""]), rule.pattern)
        pc.replace_substring_regex(pa.array([""]), around, r"\1", max_replacements=1)
    except pa.ArrowInvalid as bad:
        raise BadInput(
            "Unsupported",
            f"the pattern {rule.pattern[:200]!r} is no regular expression with one group ({bad})",
            pattern=rule.pattern[:200],
        ) from None
    wanted = rule.timestamp_format
    if wanted is not None and "%" not in wanted:
        pattern_of(wanted)
