"""Column lineage: find the input columns of each column of a derivative, from its SQL.

Only values count, not the columns that decide whether a row exists (filters, joins, grouping). SQL
that cannot be analysed completely gives no result. It runs in reader processes.

Rewriting of Spark SQL that the parser of column lineage cannot read.

The result needs to preserve only the origin of values: `window(time, …)` becomes an ordinary
function, and an as-of join an ordinary join.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odf_protocol.metadata.events import SqlQueryStep, Transform

from ..limits.texts import LINEAGE_SQL_CHARS

WINDOW = "odf_window"
"""The name for `window` in the parsed text, because `window` is a keyword of the parser."""


def parsed_spark(sql: str, dialect: str) -> Any:
    """Return the syntax tree of a query, with fields of a window replaced by its time column."""
    import sqlglot
    from sqlglot import exp

    tree = sqlglot.parse_one(_readable(sql, sqlglot.tokenize(sql, dialect=dialect)), dialect)
    for select in tree.find_all(exp.Select):
        group = select.args.get("group")
        times = [
            each.expressions[0]
            for each in (group.find_all(exp.Anonymous) if group else ())
            if each.name == WINDOW and each.expressions
        ]
        for column in list(select.find_all(exp.Column)) if times else ():
            if column.parent_select is select and WINDOW in (column.table, column.name):
                time = times[0].copy()
                column.replace(exp.alias_(time, column.name) if column.parent is select else time)
        for each in list(select.selects):
            if isinstance(each, exp.Anonymous) and each.name == WINDOW:
                each.replace(exp.alias_(each.copy(), WINDOW))
    return tree


def _readable(sql: str, tokens: Sequence[Any]) -> str:
    parts, done = [], 0
    for start, end, text in _changes(tokens):
        parts += [sql[done:start], text]
        done = end
    return "".join([*parts, sql[done:]])


def _changes(tokens: Sequence[Any]) -> Iterator[tuple[int, int, str]]:
    """Yield the replacements: start, end, and the new text."""
    words = ["" if _is_quoted(token) else token.text.upper() for token in tokens] + [""] * 2
    skip = 0
    for at, token in enumerate(tokens):
        if at < skip:
            continue
        if words[at] == "ASOF" and words[at + 1] == "JOIN":
            yield token.start, token.end + 1, ""
        elif words[at] == "MATCH_CONDITION" and words[at + 1] == "(":
            skip = _behind(words, at + 1)
            yield token.start, tokens[skip - 1].end + 1, ""
        elif words[at] == "WINDOW" and words[at + 2] != "AS":  # else WINDOW w AS (…)
            yield token.start, token.end + 1, WINDOW


def _behind(words: Sequence[str], at: int) -> int:
    """Return the index after the parenthesis that closes the one at `at`."""
    depth = 0
    for place in range(at, len(words) - 2):
        depth += {"(": 1, ")": -1}.get(words[place], 0)
        if depth == 0:
            return place + 1
    return len(words) - 2


def _is_quoted(token: Any) -> bool:
    return token.token_type.name in ("STRING", "RAW_STRING", "IDENTIFIER")


_SENSITIVE = ", normalization_strategy=case_sensitive"
_FOLDED = "spark, normalization_strategy=case_insensitive"
DIALECTS = {
    "spark": ("spark" + _SENSITIVE, _FOLDED),
    "datafusion": ("postgres" + _SENSITIVE,),
    "risingwave": ("risingwave",),
}
"""Dialects by engine, tried one after the other. DataFusion is close enough to PostgreSQL, but
keeps the case of names. Spark on other nodes may ignore the case of names."""

Origins = dict[str, list[tuple[str, str]]]
"""For each output column, pairs of the name of an input and of a column of it."""


def column_origins(transform: Transform, inputs: Mapping[str, Sequence[str]]) -> Origins | None:
    """Return the origins of every output column. `inputs` are the columns of each input, by the
    name that the query uses.

    None if the query cannot be analysed: it is in another dialect, or columns are unknown.
    """
    steps = transform.queries or ()
    if not steps or sum(len(s.query) for s in steps) > LINEAGE_SQL_CHARS:
        return None
    for dialect in DIALECTS.get(transform.engine.lower(), ()):
        try:
            return _followed(steps, inputs, dialect)
        except Exception as problem:  # the parser may raise anything for untrusted text
            logging.getLogger("odf.node").debug("no lineage of columns: %s", str(problem)[:200])
    return None


def _followed(
    steps: Sequence[SqlQueryStep], inputs: Mapping[str, Sequence[str]], dialect: str
) -> Origins:
    """Trace each step back to the inputs, and return the origins of the last one, the output."""
    known: dict[str, Origins] = {
        _folded(name, dialect): {_inside(column, dialect): [(name, column)] for column in columns}
        for name, columns in inputs.items()
        if columns
    }
    if sum(map(len, known.values())) < sum(map(len, inputs.values())):
        raise LookupError("names differ by their case only")
    written: dict[str, str] = {}
    for column in (column for columns in inputs.values() for column in columns):
        written.setdefault(_inside(column, dialect), column)
    found: Origins = {}
    for step in steps:
        found, names = _origins(step.query, known, dialect)
        written |= {_inside(name, dialect): name for name in names}
        if step.alias is not None:
            known[_folded(step.alias, dialect)] = found
    return {_outside(written.get(name, name)): origins for name, origins in found.items()}


def _inside(column: str, dialect: str) -> str:
    """Return the name of a column in the parsed text."""
    if column == "window" and dialect in DIALECTS["spark"]:
        return WINDOW
    return _folded(column, dialect)


def _outside(column: str) -> str:
    return "window" if column == WINDOW else column


def _folded(name: str, dialect: str) -> str:
    return name.lower() if dialect == _FOLDED else name


def _origins(sql: str, known: Mapping[str, Origins], dialect: str) -> tuple[Origins, Sequence[str]]:
    """Return the origins of each column of the query, and the names of columns as the query spells
    them, if it names them."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.lineage import lineage
    from sqlglot.optimizer.qualify import qualify

    schema: dict[str, Any] = {
        name: dict.fromkeys(columns, "unknown") for name, columns in known.items()
    }
    spark = dialect in DIALECTS["spark"]
    parsed: Any = parsed_spark(sql, dialect) if spark else sqlglot.parse_one(sql, dialect=dialect)
    qualified: Any = qualify(parsed.copy(), schema=schema, dialect=dialect)
    ours = {part.alias_or_name for part in qualified.find_all(exp.CTE)}
    for table in qualified.find_all(exp.Table):
        if table.name not in known and table.name not in ours:
            raise LookupError(f"the columns of {table.name!r} are not known")
    # Qualified once for all columns; selects are trimmed for display only, column by column.
    roots = lineage(None, parsed.copy(), schema=schema, dialect=dialect, trim_selects=False)
    found = {name: _leaves(root, known) for name, root in roots.items()}
    return found, parsed.named_selects


def _leaves(root: Any, known: Mapping[str, Origins]) -> list[tuple[str, str]]:
    from sqlglot import exp

    found: dict[tuple[str, str], None] = {}
    # Columns share nodes, so we walk each once: their paths may be many more.
    waiting, seen = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        others = [each for each in node.downstream if id(each) not in seen]
        seen.update(map(id, others))
        waiting += reversed(others)
        if isinstance(node.expression, exp.Table):
            column = exp.to_column(node.name).name
            for origin in known.get(node.expression.name, {}).get(column, ()):
                found[origin] = None
    return list(found)
