"""Where Spark would look at the clock without being told to: texts made times.

Constants like 'now' become times while a plan is optimized, and '12:30' gets the date of the day
it is read. The first is found by the rule of Spark that does it, the second is kept out of casts.
"""

from __future__ import annotations

import re

from .catalyst import EXPRESSIONS, OPTIMIZER, Catalyst, Node, children, items, kind, walk

_TYPE = r"\b(?:date|timestamp(?:_ltz|_ntz)?)(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_MOMENT = r"[\s\x00-\x20\x7f]*(?:(?:now|today|tomorrow|yesterday)\b|T[0-9]|[0-9]{1,2}:)"
_TIME_LITERAL = re.compile(rf"(?is){_TYPE}r?['\"]{_MOMENT}")
"""Spark has read it before there is a plan."""
_TEXT = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
_WORDS = re.compile(rf"(?is)--[^\n]*|/\*.*?\*/|`[^`]*`|(?P<type>{_TYPE})?(?P<text>{_TEXT})")
_ONLY_TIME = r"^[\x00-\x20\x7f]*[+-]?(T|[0-9]+:)"
_NO_DATE = "no date in: "


def has_literal_moment(query: str) -> bool:
    """Whether a literal like `timestamp 'now'` may be in the text of a query."""
    if _TIME_LITERAL.search(query):
        return True
    literals = (found["text"] for found in _WORDS.finditer(query) if found["type"])
    return any("\\" in text for text in literals)  # what is escaped may be any text


def has_constant_moment(catalyst: Catalyst, plan: Node) -> bool:
    """Whether a constant text like 'now', however it is put together, is made a time."""
    plain = catalyst.class_of(OPTIMIZER, "ReplaceExpressions").apply(plan)
    return not catalyst.class_of(OPTIMIZER, "SpecialDatetimeValues").apply(plain).fastEquals(plain)


def without_today(catalyst: Catalyst, plan: Node) -> Node:
    """The plan, in which texts that have a time but no date cannot be cast to a timestamp."""
    guarded = catalyst.class_of("java.util", "HashMap")()
    for node in walk(plan):
        for expression in items(node.expressions()):
            for part in walk(expression):
                cast = part.replacement() if kind(part) == "ParseToTimestamp" else part
                if _is_text_to_timestamp(cast):
                    guarded.put(part, _guarded(catalyst, cast))
    if guarded.isEmpty():
        return plan
    # A map of Scala is a partial function, which is what plans are rewritten by.
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
