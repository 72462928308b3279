"""Plan a stateful query: from the text of a transform to its operators and state.

Read the allowed lateness of a query, and rewrite temporal joins in its text for Spark.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from odf_protocol.chain.state import Vocab
from odf_protocol.metadata.events import SqlQueryStep, Transform

from ..port.port import NO_QUERY, InvalidQuery, NotIncremental, located, placed, steps_of
from ..spark.catalyst import Catalyst, ColumnOrigin, Node, expr_id, items, kind, walk
from ..spark.frames import spark_schema
from ..spark.limit import without_today
from ..spark.plan import reason
from .operators import DAY, Clock, InputClock, Least, Operator
from .query import SESSION_SETTINGS, StatefulInput
from .rowwise import query_over
from .times import TimePart, micros

LATENESS = "LATENESS"
DEFAULT_LATENESS = 7 * DAY
_TOKEN = re.compile(
    r"(?s)--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:\\.|''|[^'\\])*'|\"(?:\\.|\"\"|[^\"\\])*\"|`(?:``|[^`])*`"
    r"|[A-Za-z_0-9.`]+|\s+|."
)
_NAME = r"(?:`(?:``|[^`])+`|\w+)(?:\s*\.\s*(?:`(?:``|[^`])+`|\w+))*"
_TEMPORAL = re.compile(
    rf"(?is)\bJOIN\s+(?P<table>{_NAME})\s+FOR\s+SYSTEM_TIME\s+AS\s+OF\s+(?P<time>{_NAME})"
    rf"(?:\s+AS)?\s+(?!ON\b)(?P<alias>`(?:``|[^`])+`|\w+)\s+(?=ON\b)"
)


def as_of_joins(text: str, event_times: dict[str, str]) -> str:
    """Rewrite `JOIN t FOR SYSTEM_TIME AS OF l.time r ON …` as Spark's `ASOF JOIN`.

    `event_times` has the event time column of each input that can be joined, by its alias.
    """
    if not re.search(r"(?i)\bSYSTEM_TIME\b", _without_quotes(text)):
        return text

    def rewritten(match: re.Match[str]) -> str:
        table = match["table"].strip("`")
        time = event_times.get(table)
        if time is None:
            raise InvalidQuery(f"{table!r} is joined AS OF a time but is no input of the query")
        alias = match["alias"]
        return (
            f"ASOF JOIN {match['table']} {alias} "
            f"MATCH_CONDITION ({match['time']} >= {alias}.`{time}`) "
        )

    hidden = _hidden(text)
    parts, end = [], 0
    for match in _TEMPORAL.finditer(text):
        if any(start < match.start() < stop for start, stop in hidden):
            continue
        parts += [text[end : match.start()], rewritten(match)]
        end = match.end()
    return "".join([*parts, text[end:]])


def lateness_of(catalyst: Catalyst, parsed: list[Node]) -> int:
    """Return the allowed lateness in microseconds, from `/*+ LATENESS('1 day') */` anywhere in the
    query, or the default."""
    found = set()
    for plan in parsed:
        for node in _everywhere(plan):
            if kind(node) == "UnresolvedHint" and str(node.name()).upper() == LATENESS:
                found.add(_interval(catalyst, items(node.parameters())))
    if len(found) > 1:
        raise InvalidQuery("LATENESS is given two values, but a transform has one allowed lateness")
    return found.pop() if found else DEFAULT_LATENESS


def _interval(catalyst: Catalyst, parameters: list[Node]) -> int:
    wrong = InvalidQuery("LATENESS takes a time as text: /*+ LATENESS('36 hours') */")
    if len(parameters) != 1 or kind(parameters[0]) != "Literal":
        raise wrong
    text = str(parameters[0].eval(None))
    if not re.fullmatch(r"\s*\d+\s+(second|minute|hour|day|week)s?\s*", text, re.IGNORECASE):
        raise wrong
    length = micros(catalyst.sql(f"interval {text}"))
    if length is None:
        raise wrong
    return length


def _everywhere(plan: Node) -> Iterator[Node]:
    """Yield the nodes of a parsed plan, including those of common table expressions."""
    for node in walk(plan):
        yield node
        if kind(node) == "UnresolvedWith":
            for pair in items(node.cteRelations()):
                yield from _everywhere(pair._2())


def _hidden(text: str) -> list[tuple[int, int]]:
    """Return the spans of comments and quoted text."""
    return [
        m.span() for m in _TOKEN.finditer(text) if m[0][:1] in "'\"" or m[0][:2] in ("--", "/*")
    ]


def _without_quotes(text: str) -> str:
    return "".join(m[0] for m in _TOKEN.finditer(text) if m[0][:1] not in "'\"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A query with state, bound to the session that analysed it. One run at a time may use it."""

    catalyst: Catalyst
    inputs: tuple[StatefulInput, ...]
    schemas: dict[str, T.StructType]
    vocab: Vocab
    operators: tuple[Operator, ...]
    query: Node
    """The analysed plan of the query."""
    part: TimePart
    columns: tuple[tuple[str, Node], ...]
    """Columns of the output besides its operation column, by name."""
    watermark: Clock
    lateness: int
    """Allowed lateness in microseconds."""
    fingerprint: str


def stateful_plan(
    session: SparkSession, transform: Transform, inputs: Sequence[StatefulInput], vocab: Vocab
) -> Plan | None:
    """Plan a transform. Return None if every row of the result depends on one input row only.

    Raises:
        NotIncremental: the result needs state that cannot be kept from run to run.
        InvalidQuery: the query is wrong in any other way.
    """
    try:
        return _planned(session.newSession(), transform, inputs, vocab)
    except (PySparkException, Py4JJavaError) as bad:
        raise InvalidQuery(reason(bad)) from None


def _planned(
    session: SparkSession, transform: Transform, inputs: Sequence[StatefulInput], vocab: Vocab
) -> Plan | None:
    for name, value in SESSION_SETTINGS.items():
        session.conf.set(name, value)
    catalyst = Catalyst(session)
    schemas = {given.alias: spark_schema(given.schema) for given in inputs}
    for alias, schema in schemas.items():
        catalyst.empty(schema).createTempView("`" + alias.replace("`", "``") + "`")
    event_times = {given.alias: given.vocab.event_time_column for given in inputs}
    texts, parsed, analysed = [], [], None
    steps = steps_of(transform)
    for step in steps:
        text = as_of_joins(step.query, event_times)
        texts.append([step.alias, text])
        parsed.append(catalyst.parsed(text))
        analysed = catalyst.analysed(text)
        if step.alias is not None:
            session.sql(text).createTempView("`" + step.alias.replace("`", "``") + "`")
    if analysed is None:
        raise InvalidQuery(NO_QUERY)
    analysed = without_today(catalyst, analysed, steps)
    temporal = {table.name: table.primary_key for table in transform.temporal_tables or ()}
    query = query_over(catalyst, inputs, temporal)
    output = items(analysed.output())
    try:
        part = query.read(analysed, {expr_id(each) for each in output}, {})
    except NotIncremental as bad:
        raise _placed(bad, steps, query.refused) from None
    if not query.operators:
        return None
    if query.misuse is not None:
        raise NotIncremental(query.misuse)
    bases = [part.base, *(InputClock(i.alias) for i in inputs if i.alias not in query.used)]
    shown = [each for each in output if expr_id(each) not in part.operation]
    return Plan(
        catalyst=catalyst,
        inputs=tuple(inputs),
        schemas=schemas,
        vocab=vocab,
        operators=tuple(query.operators),
        query=analysed,
        part=part,
        columns=tuple((str(each.name()), each) for each in _checked(shown, vocab)),
        watermark=bases[0] if len(bases) == 1 else Least(tuple(bases)),
        lateness=lateness_of(catalyst, parsed),
        fingerprint=_fingerprint(texts, query.operators),
    )


def _placed(
    bad: NotIncremental, steps: Sequence[SqlQueryStep], origin: ColumnOrigin | None
) -> InvalidQuery:
    """Return the error with the position of the construct or name in its message, else of the part
    of the plan that was refused."""
    for number, step in enumerate(steps):
        if origin is not None and origin.text == step.query:
            return placed(bad, steps, number, located(step.query, bad.message) or origin.where)
    return bad


def _checked(output: Sequence[Node], vocab: Vocab) -> Sequence[Node]:
    names = [str(each.name()) for each in output]
    if vocab.operation_type_column in names:
        raise NotIncremental(
            f"column `{vocab.operation_type_column}` is the operation of the result, which follows "
            "from the changes: leave it out, or select it as it is in every branch"
        )
    for each, name in zip(output, names, strict=True):
        if names.count(name) > 1:
            raise InvalidQuery(f"the result has two columns `{name}`")
        if "map<" in str(each.dataType().simpleString()):
            raise NotIncremental(f"column `{name}`: maps cannot be compared, so not be corrected")
    return output


def _fingerprint(texts: Sequence[object], operators: Sequence[Operator]) -> str:
    """Return a hash of everything that decides the content of a checkpoint's sections."""
    kept = [[side.columns for side in operator.sides] for operator in operators]
    return hashlib.sha256(json.dumps([texts, kept]).encode()).hexdigest()
