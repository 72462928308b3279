"""Column lineage: find the input columns of each column of a derivative, from its SQL, and whether
their values are copied, or something is computed from them.

Only values count, not the columns that decide whether a row exists (filters, joins, grouping). SQL
that cannot be analysed completely gives no result. It runs in reader processes.

Rewriting of Spark SQL that the parser of column lineage cannot read.

The result needs to preserve only the origin of values: `window(time, …)` becomes an ordinary
function, `window.start` a field of it, and an as-of join an ordinary join.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from odf_protocol.metadata.events import SqlQueryStep, Transform

from ..limits.texts import LINEAGE_SQL_CHARS

WINDOW = "odf_window"
"""The name for `window` in the parsed text, because `window` is a keyword of the parser."""


def parsed_spark(sql: str, dialect: str) -> Any:
    """Return the syntax tree of a query, in which the window of a group is written out."""
    import sqlglot
    from sqlglot import exp

    tree = sqlglot.parse_one(_readable(sql, sqlglot.tokenize(sql, dialect=dialect)), dialect)
    for select in tree.find_all(exp.Select):
        group = select.args.get("group")
        windows = [
            each
            for each in (group.find_all(exp.Anonymous) if group else ())
            if each.name == WINDOW and each.expressions
        ]
        for column in list(select.find_all(exp.Column)) if windows else ():
            if column.parent_select is select and WINDOW in (column.table, column.name):
                whole = windows[0].copy()
                if column.table == WINDOW:
                    whole = exp.Dot(this=whole, expression=exp.to_identifier(column.name))
                column.replace(exp.alias_(whole, column.name) if column.parent is select else whole)
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


class ColumnCell(msgspec.Struct, frozen=True, array_like=True):
    """Where the values of an output column are from."""

    kind: str
    """`copied`, `computed`, `constant`, or `condition`: columns only decide between constants."""
    origins: list[tuple[str, str]]
    expression: str | None = None
    """What is computed, if one expression says it."""


Cells = dict[str, ColumnCell]
COPIED, COMPUTED, CONSTANT, CONDITION = "copied", "computed", "constant", "condition"
EXPRESSION_CHARS = 300
"""Number of characters of an expression that are told."""


def column_origins(transform: Transform, inputs: Mapping[str, Sequence[str]]) -> Origins | None:
    """Return the origins alone of `column_cells`."""
    found = column_cells(transform, inputs)
    return None if found is None else {name: cell.origins for name, cell in found.items()}


def column_cells(transform: Transform, inputs: Mapping[str, Sequence[str]]) -> Cells | None:
    """Return where every output column is from. `inputs` are the columns of each input, by the
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
) -> Cells:
    """Trace each step back to the inputs, and return the columns of the last one, the output."""
    known: dict[str, Cells] = {
        _folded(name, dialect): {
            _inside(column, dialect): ColumnCell(COPIED, [(name, column)]) for column in columns
        }
        for name, columns in inputs.items()
        if columns
    }
    if sum(map(len, known.values())) < sum(map(len, inputs.values())):
        raise LookupError("names differ by their case only")
    written: dict[str, str] = {}
    for column in (column for columns in inputs.values() for column in columns):
        written.setdefault(_inside(column, dialect), column)
    found: Cells = {}
    for step in steps:
        found, names = _cells(step.query, known, dialect)
        written |= {_inside(name, dialect): name for name in names}
        if step.alias is not None:
            known[_folded(step.alias, dialect)] = found
    return {_outside(written.get(name, name)): cell for name, cell in found.items()}


def _inside(column: str, dialect: str) -> str:
    """Return the name of a column in the parsed text."""
    if column == "window" and dialect in DIALECTS["spark"]:
        return WINDOW
    return _folded(column, dialect)


def _outside(column: str) -> str:
    return "window" if column == WINDOW else column


def _folded(name: str, dialect: str) -> str:
    return name.lower() if dialect == _FOLDED else name


def _cells(sql: str, known: Mapping[str, Cells], dialect: str) -> tuple[Cells, Sequence[str]]:
    """Return where each column of the query is from, and the names of columns as the query spells
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
    values = _Values(known, dialect)
    found = {}
    for name, root in roots.items():
        kind, expression = values.of(root)
        found[name] = ColumnCell(kind, _leaves(root, known), expression)
    return found, parsed.named_selects


Value = tuple[str, str | None]
"""Kind and expression of a column."""


class _Values:
    """How the columns of one query get their values. Columns share nodes, so each is looked at
    once."""

    def __init__(self, known: Mapping[str, Cells], dialect: str) -> None:
        self._known, self._dialect = known, dialect
        self._seen: dict[int, Value] = {}

    def of(self, node: Any) -> Value:
        if id(node) not in self._seen:
            self._seen[id(node)] = self._of(node)
        return self._seen[id(node)]

    def _of(self, node: Any) -> Value:
        from sqlglot import exp

        if isinstance(node.expression, exp.Table):
            column = exp.to_column(node.name).name
            cell = self._known.get(node.expression.name, {}).get(column)
            return (COMPUTED, None) if cell is None else (cell.kind, cell.expression)
        value = node.expression.unalias().unnest()
        if isinstance(node.source, exp.SetOperation) or isinstance(value, exp.SetOperation):
            branches = {self.of(each) for each in node.downstream}
            kinds = {kind for kind, _ in branches}
            if len(branches) == 1:
                return branches.pop()
            return (kinds.pop() if len(kinds) == 1 else COMPUTED), None
        if isinstance(value, exp.Column) and len(node.downstream) == 1:
            return self.of(node.downstream[0])
        return _kind(value), self._text(value)

    def _text(self, value: Any) -> str | None:
        from sqlglot import exp

        if isinstance(value, exp.Literal | exp.Column):
            return None
        shown = value.copy()
        for column in shown.find_all(exp.Column):
            if column.table.startswith("_"):  # a name that the analysis gave to a subquery
                column.set("table", None)
        text = str(shown.sql(self._dialect)).replace(f"{WINDOW.upper()}(", "window(")
        return text if len(text) <= EXPRESSION_CHARS else text[: EXPRESSION_CHARS - 1] + "…"


def _kind(value: Any) -> str:
    """Return the kind of an expression that is more than a column."""
    from sqlglot import exp

    columns = list(value.find_all(exp.Column))
    if not columns:
        return COMPUTED if value.find(exp.AggFunc, exp.Window) else CONSTANT
    return CONDITION if all(_only_decides(each, value) for each in columns) else COMPUTED


def _only_decides(column: Any, value: Any) -> bool:
    """Return whether a column is only in the condition of a CASE or an IF."""
    from sqlglot import exp

    if value.find(exp.AggFunc, exp.Window):
        return False
    inner = column
    while inner is not value:
        outer = inner.parent
        if isinstance(outer, exp.If | exp.Case) and outer.this is inner:
            return True
        inner = outer
    return False


def _leaves(root: Any, known: Mapping[str, Cells]) -> list[tuple[str, str]]:
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
            cell = known.get(node.expression.name, {}).get(column)
            for origin in () if cell is None else cell.origins:
                found[origin] = None
    return list(found)
