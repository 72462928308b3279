"""The engine port: an engine runs queries over files; it sees no chain, store or network.

Every engine promises the following, and `tests/conformance/engine.py` tests each promise: equal
requests return equal rows in equal order; a wrong query gives a response, not an exception; a
request may be repeated without harm.

Find where a transform is wrong: which of its queries, which line, which column.

Each engine reports a position in a different form, or only names the part of the query that it
means; then this module searches the text for that name. A response of an engine holds only a
message, so the message begins with the position:

    query 2 (`ranked`), line 3, column 14: No field named dest

Words of SQL that mean something else on Spark than on the engine of queries, DataFusion.

An author tries a query on one engine and schedules it on the other. `docs/sql-differences.md` shows
what both make of hundreds of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Protocol, runtime_checkable

from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponse,
    SqlQueryStep,
    Transform,
    TransformRequest,
    TransformResponse,
)

from .tracing import Arrival, Condition, Sought, Trace

SPARK = "spark"
"""Name of the engine that takes double quotes for a text."""
INPUT = "input"
"""Name of the view over the input of a raw query."""
QUERY_SECONDS = 3600.0
"""Default limit of the seconds that one query may take."""
ROW = "odf row"
"""Name of a hidden column that engines may add. It identifies the input row from which a row was
computed, and is not written to the slice."""
ROW_BITS = 56
"""A value of `ROW` holds the offset in this many low bits, and the input's number above them."""
ORDER_OF_CHANGES = (
    "ORDER BY cannot be applied here: the inputs hold retractions or corrections, whose meaning "
    "lies in their order"
)
NO_QUERY = "the transform has no query"
ONLY_QUERIES = "only SELECT queries are accepted"
_BEFORE_FIRST_WORD = re.compile(r"(?s)(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*")


class InvalidQuery(BadInput):
    """The query cannot be run; the message says what is wrong with it."""

    engine_words: str | None = None
    """The message as the engine wrote it, if this is the answer of one in other words."""


class QueryTooSlow(InvalidQuery):
    """The query exceeded its time limit. The port has no other response for this case."""

    def __init__(self, seconds: float, *, processor: bool = False) -> None:
        setting, kind = "ODF_WORKER_QUERY_S", " of processor time" if processor else ""
        super().__init__(
            f"{_TOO_SLOW} {seconds:g} seconds{kind} ({setting})", seconds=seconds, setting=setting
        )


def query_too_large(said: str, setting: str) -> InvalidQuery:
    """The query took more memory than a setting allows."""
    return InvalidQuery("QueryTooLarge", f"{_TOO_LARGE} ({setting}): {said}", setting=setting)


_TOO_SLOW = "the query did not end within"
_TOO_LARGE = "the query needs more memory than it may take"


def is_beyond_limits(answer: InvalidQuery) -> bool:
    """Return whether the query exceeded a time or memory limit, so another machine may succeed.

    Only the message is compared: an error from a remote engine has lost its class.
    """
    return answer.message.startswith((_TOO_SLOW, _TOO_LARGE))


class NotIncremental(InvalidQuery):
    """The rows of the query depend on rows of other iterations, and no state is kept for that."""


def not_incremental(what: str) -> NotIncremental:
    """Return the error that refuses a construct; `what` names it in the message."""
    return NotIncremental(
        f"the query has {what}, whose rows depend on those of other iterations; computed from new "
        "rows alone they would be wrong"
    )


class EngineListener:
    """Receives reports about a running query. This base class ignores them."""

    def progress(self) -> None:
        """Report that the query is still running. Engines call it any number of times."""

    def warning(self, text: str) -> None:
        """Report a problem that does not fail the query, but that its author should know."""

    def late(self, rows: int) -> None:
        """Report rows and changes of inputs that were left out because they came too late."""

    def stops(self, stop: Callable[[], None]) -> None:
        """Receive the function that stops the query. Any thread may call it, once nobody waits
        for the response any more."""


QUIET = EngineListener()


@runtime_checkable
class Prepared(Protocol):
    """An engine that has to start something before its first query."""

    def prepare(self) -> None:
        """Begin to start it, and return without waiting."""


class Engine(Protocol):
    """One query engine. An execution is pinned to its `name` and `version`."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def execute_raw_query(
        self, request: RawQueryRequest, listener: EngineListener = QUIET
    ) -> RawQueryResponse:
        """Run a query over the input files as the view `input`, and write the rows to the output
        path.

        The engine writes one Parquet file, even if there are no rows.
        """
        ...

    def execute_transform(
        self, request: TransformRequest, listener: EngineListener = QUIET
    ) -> TransformResponse:
        """Run one iteration of a derivative dataset over the new rows of its inputs.

        The engine writes the slice to `new_data_path`, even if there are no rows, because the
        file gives the schema. It writes the checkpoint for the next iteration to
        `new_checkpoint_path`, if there is anything to keep.
        """
        ...

    def narrow_transform(
        self, request: TransformRequest, values: Mapping[str, str]
    ) -> Sequence[Sequence[Condition]]:
        """Say for each input what its rows have in common from which a row was made that has these
        values. The inputs of the request have no rows. Raises `InvalidQuery`."""
        ...

    def trace_transform(
        self,
        request: TransformRequest,
        sought: Sought,
        arrivals: Sequence[Arrival],
        listener: EngineListener = QUIET,
    ) -> Trace | None:
        """Say from which rows a row of the result was made, if the query keeps rows between
        iterations. None: this engine keeps none, or cannot say.

        The request has all rows that stand, and no checkpoint; `arrivals` say which came too late.
        Raises `InvalidQuery`.
        """
        ...


class Untraced:
    """An engine that keeps no rows between iterations, or cannot say which."""

    def narrow_transform(
        self,
        request: TransformRequest,
        values: Mapping[str, str],  # noqa: ARG002
    ) -> Sequence[Sequence[Condition]]:
        return [()] * len(request.query_inputs)

    def trace_transform(
        self,
        request: TransformRequest,  # noqa: ARG002 - as of `Engine`
        sought: Sought,  # noqa: ARG002
        arrivals: Sequence[Arrival],  # noqa: ARG002
        listener: EngineListener = QUIET,  # noqa: ARG002
    ) -> Trace | None:
        return None


def engine_for(transform: Transform, engines: Sequence[Engine]) -> Engine:
    """Return the engine that a transform requests, ignoring case. Raise `UnsupportedEngine`."""
    wanted = transform.engine.lower()
    for engine in engines:
        if engine.name == wanted:
            return engine
    available = list(dict.fromkeys(engine.name for engine in engines))
    raise BadInput(
        "UnsupportedEngine",
        f"the query asks for the engine {transform.engine!r}; this node runs "
        f"{', '.join(available)}: rewrite the query for one of them",
        engine=transform.engine,
        available=available,
    )


def steps_of(transform: Transform) -> Sequence[SqlQueryStep]:
    """Return the steps of a transform; the last one is the result and needs no alias.

    Raises:
        InvalidQuery: there is no step, or a step before the last has no alias.
    """
    steps = transform.queries or ()
    if not steps and transform.query:
        steps = (SqlQueryStep(query=transform.query),)
    if not steps:
        raise InvalidQuery(NO_QUERY)
    for step in steps[:-1]:
        if step.alias is None:
            raise InvalidQuery("only the last query may have no alias")
    return steps


def check_begins_as_query(text: str) -> None:
    """Raise `InvalidQuery` unless the first word is SELECT or WITH."""
    before = _BEFORE_FIRST_WORD.match(text)
    rest = text[before.end() if before else 0 :]
    if rest[:6].upper().startswith(("SELECT", "WITH")):
        return
    word = _WORD.match(rest)
    near = get_close_matches(word[0].upper(), _FIRST, n=1) if word else []
    raise InvalidQuery(
        f"{ONLY_QUERIES}, and `{word[0]}` is not the beginning of one; did you mean {near[0]}?"
        if word and near
        else ONLY_QUERIES
    )


_WORD = re.compile(r"[A-Za-z_]{1,30}")
_FIRST = ("SELECT", "WITH")
_KEYWORDS = frozenset(
    {"AND", "AS", "BETWEEN", "BY", "CASE", "CROSS", "DISTINCT", "ELSE", "END", "EXCEPT", "FROM"}
    | {"FULL", "GROUP", "HAVING", "INNER", "INTERSECT", "JOIN", "LEFT", "LIKE", "LIMIT", "NOT"}
    | {"NULL", "OFFSET", "ON", "OR", "ORDER", "OUTER", "OVER", "PARTITION", "RIGHT", "SELECT"}
    | {"THEN", "UNION", "USING", "VALUES", "WHEN", "WHERE", "WITH"}
)
_LAST_WORD = re.compile(r"([A-Za-z_]{1,30})\s*\Z")
_NEAR = 0.7
"""How similar a word is to the keyword that it is taken for, of 1."""


def misspelt_keyword(query: str, line: int, column: int) -> str | None:
    """Return "`word`: did you mean KEYWORD?" if a parser that stopped at this place did so at, or
    behind, a word that is nearly a keyword."""
    lines = query.split("\n")
    if line > len(lines):
        return None
    here = _WORD.match(lines[line - 1], column - 1)
    before = _LAST_WORD.search("\n".join([*lines[: line - 1], lines[line - 1][: column - 1]]))
    for word in [found[0].strip() for found in (here, before) if found]:
        near = get_close_matches(word.upper(), sorted(_KEYWORDS), n=1, cutoff=_NEAR)
        if near and word.upper() not in _KEYWORDS:
            return f"`{word}`: did you mean {near[0]}?"
    return None


Where = tuple[int, int]
"""Line and column, both counted from 1."""
_SAID = re.compile(
    r"(?:query (?P<query>\d+)(?: \(`(?P<queryAlias>[^`]*)`\))?, )?"
    r"line (?P<line>\d+), column (?P<column>\d+): "
)
_TOLD = (
    (re.compile(r"\bline (\d+),? pos (\d+)\b"), 1),  # Spark counts columns from 0
    (re.compile(r"\bline:? (\d+)[,;]? (?:col|column|pos|position):? (\d+)\b", re.IGNORECASE), 0),
)
_NAMED = re.compile(
    r"`(\w+)`|\b(?:table|function) '([^']+)'"
    r"|\b(?:named|function|functions|aggregate) ([\w.]+)"
)
"""The names that a message mentions."""
_WRITTEN = {
    "an aggregate": r"\bgroup\s+by\b",
    "a join": r"\bjoin\b",
    "a window function": r"\bover\b",
    "DISTINCT": r"\bdistinct\b|\bunion\b(?!\s+all\b)",
    "LIMIT": r"\blimit\b",
    "a subquery": r"\(\s*select\b",
    "subqueries": r"\(\s*select\b",
    "OFFSET": r"\boffset\b",
    "EXCEPT": r"\bexcept\b",
    "INTERSECT": r"\bintersect\b",
    "PIVOT": r"\bpivot\b",
    "ORDER BY": r"\border\s+by\b",
    "SORT BY": r"\bsort\s+by\b",
    "DISTRIBUTE BY": r"\b(?:distribute|cluster)\s+by\b",
    "TABLESAMPLE": r"\btablesample\b",
    "a hint": r"/\*\+",
    "LATENESS": r"\blateness\b",
}
"""For each construct that may begin a message: the pattern of its SQL."""
_NO_CODE = re.compile(r"(?s)--[^\n]*|/\*(?!\+).*?(?:\*/|\Z)|'(?:\\.|''|[^'\\])*'")


def told(message: str) -> Where | None:
    """Return the position that an engine's message states, if it states one."""
    for pattern, shift in _TOLD:
        if found := pattern.search(message):
            return int(found[1]), int(found[2]) + shift
    return None


def located(text: str, message: str) -> Where | None:
    """Return where the query has the construct or name that a message mentions, if anywhere.

    The search ignores case, and skips string literals and comments.
    """
    code = _NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for pattern in _patterns(message):
        if found := re.search(pattern, code, re.IGNORECASE):
            return line_and_column(text, found.start())
    return None


def _patterns(message: str) -> Iterator[str]:
    subject = re.split(r"[:,]", message, maxsplit=1)[0]  # the rest is advice
    for what, pattern in _WRITTEN.items():
        if what in subject:
            yield pattern
    for match in _NAMED.finditer(message):
        name = next(filter(None, match.groups())).rstrip(".")
        yield rf"(?<!\w){re.escape(name.rsplit('.', 1)[-1])}(?!\w)"


def line_and_column(text: str, at: int) -> Where:
    """Return the line and column of the character at index `at`."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


@contextmanager
def blamed_on(steps: Sequence[SqlQueryStep], number: int | None = None) -> Iterator[None]:
    """Add a position to an `InvalidQuery` that the block raises, unless it has one: the position
    that the engine states, else that of the construct or name in the message, else the beginning
    of the query.

    Without `number`, the error may be in any of the steps.
    """
    try:
        yield
    except InvalidQuery as bad:
        if "line" in bad.facts:
            raise
        numbers = range(len(steps)) if number is None else (number,)
        for at in numbers:
            where = told(bad.message) if number is not None else None
            where = where or located(steps[at].query, bad.message)
            if where is not None:
                raise placed(bad, steps, at, where) from None
        raise placed(bad, steps, numbers[-1]) from None


def placed(
    bad: InvalidQuery, steps: Sequence[SqlQueryStep], number: int, where: Where | None = None
) -> InvalidQuery:
    """Return the same error with its position as facts, by default the first word of the query.

    `number` counts from 0. The fact `query` counts from 1, and is set only if there are several
    steps.
    """
    text, alias = steps[number].query, steps[number].alias
    line, column = where or line_and_column(text, len(text) - len(text.lstrip()))
    facts: dict[str, Any] = {"line": line, "column": column}
    if len(steps) > 1:
        facts |= {"query": number + 1} | ({} if alias is None else {"queryAlias": alias})
    return type(bad)(bad.message + _hint(bad.message, text, line, column), **bad.facts, **facts)


_IS_PARSED = re.compile(r"SQL error: ParserError\(|\[PARSE_SYNTAX_ERROR\]")
_NO_FIELD = re.compile(
    r"Schema error: No field named (?P<name>\S+)\.\s.*?Valid fields are (?P<all>.+?)\.?\Z",
    re.DOTALL,
)


def _hint(message: str, query: str, line: int, column: int) -> str:
    """Return what was probably meant, to be put behind the message of an engine that does not say
    that itself: a keyword, or the nearest column. What is before it stays as the engine wrote it,
    by which replays judge it."""
    if "did you mean" in message.lower():
        return ""
    if _IS_PARSED.match(message):
        near = misspelt_keyword(query, line, column)
        return "" if near is None else f"; {near}"
    unknown = _NO_FIELD.match(message)
    if unknown is None:
        return ""
    plain, fields = (
        [one.rpartition(".")[2].strip('"') for one in text.split(", ")]
        for text in (unknown["name"], unknown["all"])
    )
    close = get_close_matches(plain[0], fields, n=1)
    return f" Did you mean {close[0]}?" if close else ""


def written_at(
    bad: InvalidQuery, steps: Sequence[SqlQueryStep], text: str, where: Where
) -> InvalidQuery:
    """Return the same error with its position in the step that has this text, if any step has."""
    for number, step in enumerate(steps):
        if step.query == text:
            return placed(bad, steps, number, where)
    return bad


def said(bad: BadInput) -> str:
    """Return the message, preceded by the position if that is known."""
    facts = bad.facts
    if "line" not in facts:
        return bad.message
    alias = f" (`{facts['queryAlias']}`)" if "queryAlias" in facts else ""
    query = f"query {facts['query']}{alias}, " if "query" in facts else ""
    return f"{query}line {facts['line']}, column {facts['column']}: {bad.message}"


def place_of(message: str) -> dict[str, Any]:
    """Return the position in a message as facts: as `said` writes it, or as an engine states it."""
    if found := _SAID.match(message):
        known = {key: value for key, value in found.groupdict().items() if value is not None}
        return {key: v if key == "queryAlias" else int(v) for key, v in known.items()}
    if where := told(message):
        return dict(zip(("line", "column"), where, strict=True))
    return {}


def without_place(message: str) -> str:
    """Return the message without the position that `said` writes before it."""
    found = _SAID.match(message)
    return message[found.end() :] if found else message


_QUOTED = re.compile(
    r"(?s)--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:\\.|''|[^'\\])*'|`(?:``|[^`])*`"
    r"|\"(?P<text>(?:\\.|\"\"|[^\"\\])*)\""
)
"""Matches what has quotes or is a comment; `text` is what is in double quotes."""
_OTHER = re.compile(
    r"(?i)\b(?P<call>array_agg|array_position|array_remove|array_sort|atan2|concat|date_format|"
    r"from_unixtime|initcap|log|regexp_replace|to_char)\s*\(|\b(?P<part>dow|second)\s+from\b|(?P<sign>/)"
)
"""Matches what often has another value in queries of readers, without an error."""


def refuse_quoted_columns(steps: Sequence[SqlQueryStep], columns: Collection[str]) -> None:
    """Refuse a query for Spark in which a text in double quotes is also the name of a column: Spark
    would store that word in every row, while other engines take it for the column.

    Raises:
        InvalidQuery.
    """
    names = {name.casefold() for name in columns}
    for number, step in enumerate(steps):
        for found in _QUOTED.finditer(step.query):
            text = found["text"]
            if text is not None and text.casefold() in names:
                bad = InvalidQuery(
                    f'for this engine "{text}" in double quotes is a text, not the column of that '
                    f"name: write `{text}` for the column, '{text}' for the text"
                )
                raise placed(bad, steps, number, line_and_column(step.query, found.start()))


def with_other_meaning(steps: Sequence[SqlQueryStep]) -> list[str]:
    """Return the words of a query for Spark that often have another value in queries of readers."""
    found = [
        match[match.lastgroup or 0].lower()
        for step in steps
        for match in _OTHER.finditer(_QUOTED.sub(" ", step.query))
    ]
    return sorted(set(found))
