"""Column lineage: find the input columns of each column of a derivative, from its SQL.

Only values count, not the columns that decide whether a row exists (filters, joins, grouping). SQL
that cannot be analysed completely gives no result. It runs in reader processes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from odf_protocol.metadata.transforms import SqlQueryStep, Transform

from ..limits.texts import LINEAGE_SQL_CHARS
from .lineage_text import WINDOW, parsed_spark

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
