"""Limit the time of the work of one thread on Spark.

Spark signals its tasks to end, and some ignore that: a loop within one row, a regular expression.
Such a task would occupy a task slot for ever, so this module kills the JVM.

Refuse divisions of whole numbers, which give fractions on Spark but not in other dialects.

Find and prevent conversions from text to time for which Spark would read the clock.

Spark turns constants like 'now' into times while it optimizes a plan, and gives '12:30' the date of
the current day. This module finds the former by Spark's own rule, and guards casts against the
latter. If such a text is inside another value, where no guard reaches it, the query is refused.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import re2
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from odf_protocol.metadata.events import SqlQueryStep

from ...runtime.command import LOGGER, line
from ..port.port import QUIET, EngineListener, InvalidQuery, QueryTooSlow, written_at
from . import jvm
from .catalyst import (
    EXPRESSIONS,
    OPTIMIZER,
    Catalyst,
    Node,
    children,
    items,
    kind,
    origin_of,
    type_of,
    walk,
)
from .jvm import awaited
from .session import Spark

GRACE_S = 20.0
"""Seconds that cancelled work has to end, before the JVM is killed."""
_LOOK_S = 0.2
_TASK = re.compile(r"Executor task launch worker for task \S+ in stage (\d+)\.")
"""Matches the name of a thread of the JVM that runs a task."""


@contextmanager
def limited(session: Spark, seconds: float, listener: EngineListener = QUIET) -> Iterator[str]:
    """Cancel the Spark jobs that this thread starts in the block after so many seconds, or when the
    listener stops them. They are one job group; the block gets its name.

    Raises:
        QueryTooSlow: the jobs were cancelled; it replaces the error that they raise.
    """
    spark = session.sparkContext
    group = f"odf-{uuid.uuid4()}"
    expired = threading.Event()

    def expire() -> None:
        if not expired.is_set():
            expired.set()
            last.start()
        with suppress(Py4JError, ConnectionError):  # if Spark has ended, so has the query
            spark._jsc.sc().cancelJobGroupAndFutureJobs(group)

    timer, last = threading.Timer(seconds, expire), threading.Timer(GRACE_S, _end)
    timer.daemon = last.daemon = True
    spark.setJobGroup(group, "query of a dataset", interruptOnCancel=True)
    timer.start()
    try:
        listener.stops(expire)
        with awaited(spark):
            yield group
    except Exception as failed:
        if expired.is_set():
            raise QueryTooSlow(seconds) from failed
        raise
    finally:
        timer.cancel()
        last.cancel()
        if not expired.is_set():
            spark._jsc.clearJobGroup()
        else:
            with suppress(Py4JError, ConnectionError):
                spark._jsc.clearJobGroup()
                _end_if_stuck(spark)


def _end_if_stuck(spark: Any) -> None:
    """Kill the JVM if it still runs tasks of cancelled jobs after `GRACE_S`."""
    deadline = time.monotonic() + GRACE_S
    while _runs_for_nobody(spark):
        if time.monotonic() > deadline:
            _end()
            return
        time.sleep(_LOOK_S)


def _runs_for_nobody(spark: Any) -> bool:
    names = str(spark._jvm.java.lang.Thread.getAllStackTraces().keySet().toString())
    running = {int(stage) for stage in _TASK.findall(names)}
    return bool(running - set(spark.statusTracker().getActiveStageIds()))


def _end() -> None:
    LOGGER.error(line("Spark is ended with a query that does not end"))
    jvm.end("it was ended with a query that did not end")


_WHOLE = frozenset({"byte", "short", "integer", "long"})


def refuse_whole_divisions(catalyst: Catalyst, frame: DataFrame) -> None:
    """Raise `InvalidQuery` if `/` divides whole numbers and no cast makes the intention clear."""
    written = catalyst.class_of(EXPRESSIONS, "Cast").USER_SPECIFIED_CAST()
    for expression in _expressions(frame._jdf.queryExecution().analyzed()):
        if kind(expression) != "Divide":
            continue
        if all(
            kind(side) == "Cast"
            and not side.getTagValue(written).isDefined()
            and children(side)[0].dataType().typeName() in _WHOLE
            for side in children(expression)
        ):
            raise InvalidQuery(
                "whole numbers are divided by `/`, which is a fraction on Spark and a whole number "
                "in the dialect SqlDataFusion: write `a div b` for whole numbers, or "
                "`cast(a as double) / b`"
            )


def _expressions(plan: Node) -> Iterator[Node]:
    for expression in items(plan.expressions()):
        yield from walk(expression)
    for below in (*items(plan.subqueries()), *children(plan)):
        yield from _expressions(below)


_TYPE = r"\b(?:date|timestamp(?:_ltz|_ntz)?)"
_BLANK = r"[\s\v\x1c-\x1f\x85\pZ]"
_MOMENT = r"[\x00-\x20\x7f\x85\pZ]*(?:(?:now|today|tomorrow|yesterday)\b|T[0-9]|[0-9]{1,2}:)"
_TIME_LITERAL = re2.compile(rf"(?is){_TYPE}(?:{_BLANK}|--[^\n]*\n|/\*.*?\*/)*r?['\"]{_MOMENT}")
"""Matches a time literal with such a text. The parser evaluates it, so no plan shows the text."""
_TEXT = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
_GAP = r"(?>\s|--[^\n]*\n|/\*.*?\*/)*"
_WORDS = re.compile(
    rf"(?is)--[^\n]*|/\*.*?(?:\*/|\Z)|`[^`]*`|(?P<type>{_TYPE}{_GAP})?(?P<text>{_TEXT})"
)
_ONLY_TIME = r"^[\x00-\x20\x7f]*[+-]?(T|[0-9]+:)"
_NO_DATE = "no date in: "
_PARSERS = {"JsonToStructs": "from_json", "CsvToStructs": "from_csv"}
_OF_THE_DAY = "a time without a date would get that of the day it is computed"


def has_literal_moment(query: str) -> bool:
    """Return whether the text of a query may contain a literal like `timestamp 'now'`."""
    if _TIME_LITERAL.search(query.encode("utf-8", "replace").decode()):
        return True
    literals = (found["text"] for found in _WORDS.finditer(query) if found["type"])
    return any("\\" in text for text in literals)  # an escape may stand for any text


def has_constant_moment(catalyst: Catalyst, plan: Node) -> bool:
    """Return whether the plan converts a constant text like 'now', even a computed one."""
    plain = catalyst.class_of(OPTIMIZER, "ReplaceExpressions").apply(plan)
    return not catalyst.class_of(OPTIMIZER, "SpecialDatetimeValues").apply(plain).fastEquals(plain)


def without_today(catalyst: Catalyst, plan: Node, steps: Sequence[SqlQueryStep]) -> Node:
    """Return the plan of the steps with guards, by which a text with a time but no date is no valid
    timestamp.

    Raises:
        InvalidQuery: a timestamp is read from a value that may contain such a text, or from a time
            of the day.
    """
    guarded = catalyst.class_of("java.util", "HashMap")()
    for node in walk(plan):
        for expression in items(node.expressions()):
            for part in walk(expression):
                cast = part.replacement() if kind(part) == "ParseToTimestamp" else part
                if _is_text_to_timestamp(cast):
                    guarded.put(part, _guarded(catalyst, cast))
                elif why := _takes_today(cast):
                    origin = origin_of(part)
                    bad = InvalidQuery(f"{why}: {_OF_THE_DAY}")
                    if origin is None:
                        raise bad
                    raise written_at(bad, steps, origin.text, origin.where)
    if guarded.isEmpty():
        return plan
    # A Scala map is a partial function, and Spark rewrites plans by partial functions.
    to_map = catalyst.class_of("org.apache.spark.api.python", "PythonUtils").toScalaMap
    return plan.transformAllExpressions(to_map(guarded))


def _is_text_to_timestamp(expression: Node) -> bool:
    return (
        kind(expression) == "Cast"
        and str(expression.dataType().typeName()) == "timestamp"
        and str(children(expression)[0].dataType().typeName()) == "string"
    )


def _guarded(catalyst: Catalyst, cast: Node) -> Node:
    text = children(cast)[0]
    concat, like, either = (catalyst.class_of(EXPRESSIONS, e) for e in ("Concat", "RLike", "If"))
    refused = concat(catalyst.seq([catalyst.sql(f"'{_NO_DATE}'"), text]))
    test = like(text, catalyst.sql(f"r'{_ONLY_TIME}'"))
    return cast.withNewChildren(catalyst.seq([either(test, refused, text)]))


def _takes_today(expression: Node) -> str | None:
    """Return why an expression must be refused: it would make timestamps from texts inside other
    values, or from times of the day. Return None if it would not."""
    name = kind(expression)
    if name == "Cast":
        if _dateless(type_of(children(expression)[0]), type_of(expression)):
            return (
                "only a plain text can be cast to a timestamp: take what is in an array, map, "
                "struct or variant out of it as text first, and put a date before a time of a day"
            )
    elif name == "VariantGet":
        if _holds_timestamp(type_of(expression)):
            return (
                "variant_get cannot give a timestamp: take it as text, and cast that to a timestamp"
            )
    elif name in _PARSERS and _holds_timestamp(type_of(expression)) and not _has_format(expression):
        return (
            f"the function {_PARSERS[name]} reads a timestamp without a format: name a "
            "`timestampFormat` (and no `enableDateTimeParsingFallback`), or take it as text"
        )
    return None


def _dateless(source: T.DataType, target: T.DataType) -> bool:
    """Return whether a cast makes timestamps from values that may have no date."""
    match source, target:
        case T.ArrayType(), T.ArrayType():
            return _dateless(source.elementType, target.elementType)
        case T.MapType(), T.MapType():
            return _dateless(source.keyType, target.keyType) or _dateless(
                source.valueType, target.valueType
            )
        case T.StructType(), T.StructType():
            pairs = zip(source.fields, target.fields, strict=True)
            return any(_dateless(one.dataType, other.dataType) for one, other in pairs)
        case T.VariantType(), _:
            return _holds_timestamp(target)
        case T.TimeType(), T.TimestampType() | T.TimestampNTZType():
            return True
        case T.StringType(), T.TimestampType():
            return True
    return False


def _holds_timestamp(of: T.DataType) -> bool:
    match of:
        case T.ArrayType():
            return _holds_timestamp(of.elementType)
        case T.MapType():
            return _holds_timestamp(of.keyType) or _holds_timestamp(of.valueType)
        case T.StructType():
            return any(_holds_timestamp(field.dataType) for field in of.fields)
    return isinstance(of, T.TimestampType)


def _has_format(parser: Node) -> bool:
    """Return whether a parser reads timestamps by a format only. Without a format, or if it fails
    and the options allow a fallback, Spark reads timestamps as a cast does."""
    named = {str(pair._1()).lower() for pair in items(parser.options().toSeq())}
    return "timestampformat" in named and "enabledatetimeparsingfallback" not in named
