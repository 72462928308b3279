"""The aggregates windows may use: how each is computed so that order does not matter.

Two ways. From the rows, for every aggregate in `FROM_ROWS`: the rows of a window are kept, and
what depends on the order of rows is computed in the order of values. From sums, where an
aggregate can be taken back as well as added: only counts and exact sums are kept, per group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import types as T  # noqa: N812

from ..spark.catalyst import Node, children, kind, option, plain, type_of

_SORTED_SUM = "aggregate(array_sort(collect_list({0}){filter}), 0D, (s, v) -> s + v)"
_SOME = "if(count({0}){filter} = 0, null, {what})"

FROM_ROWS: Mapping[str, str] = {
    "count": "count({distinct}{all}){filter}",
    "sum": "sum({distinct}{0}){filter}",
    "try_sum": "try_sum({distinct}{0}){filter}",
    "avg": "avg({distinct}{0}){filter}",
    "try_avg": "try_avg({distinct}{0}){filter}",
    "min": "min({0}){filter}",
    "max": "max({0}){filter}",
    "bit_and": "bit_and({0}){filter}",
    "bit_or": "bit_or({0}){filter}",
    "bit_xor": "bit_xor({0}){filter}",
    "collect_list": "array_sort(collect_list({distinct}{0}){filter})",
    "collect_set": "array_sort(collect_set({0}){filter})",
    # Of several rows with the same greatest or least y, the greatest or least x.
    "max_by": "max_by({0}, if({1} is null, null, struct({1}, {0}))){filter}",
    "min_by": "min_by({0}, if({1} is null, null, struct({1}, {0}))){filter}",
}
"""SQL by Spark's name of the aggregate."""
FLOAT_SUMS: Mapping[str, str] = {
    "sum": _SOME.replace("{what}", _SORTED_SUM),
    "avg": _SOME.replace("{what}", _SORTED_SUM + " / count({0}){filter}"),
}
"""The same for floating point, whose sums depend on the order of addition."""
WHOLE_AVERAGE = (
    "cast(sum(cast({0} as decimal(38, 0))){filter} as double) / nullif(count({0}){filter}, 0)"
)
WHOLE = T.ByteType | T.ShortType | T.IntegerType | T.LongType


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An aggregate of a query. Arguments are columns `names`, the condition a column `where`."""

    function: str
    names: tuple[str, ...]
    arguments: tuple[Node, ...]
    where: str | None
    condition: Node | None
    distinct: bool
    type: T.DataType
    of: T.DataType | None
    """Type of the only argument."""

    def from_rows(self) -> str | None:
        """SQL over the rows of a group; None for an aggregate that is not supported."""
        template = FROM_ROWS.get(self.function)
        if template is not None and isinstance(self.of, T.FloatType | T.DoubleType):
            # Distinct values have no order of their own either.
            template = FLOAT_SUMS.get(self.function, template)
            if self.distinct and self.function in FLOAT_SUMS:
                return None
        if self.function == "avg" and not self.distinct and isinstance(self.of, WHOLE):
            template = WHOLE_AVERAGE
        if template is None:
            return None
        return template.format(
            *self.names,
            all=", ".join(self.names) or "*",
            distinct="distinct " if self.distinct else "",
            filter=f" filter (where {self.where})" if self.where else "",
        )

    def counted(self) -> str:
        """SQL: whether a row counts."""
        tests = [f"{name} is not null" for name in self.names]
        return " and ".join([*tests, self.where] if self.where else tests) or "true"

    def sum_type(self) -> T.DecimalType | None:
        """Of an exact sum that can be kept; None if there is none, or none is needed."""
        if self.function == "count":
            return None
        if isinstance(self.of, T.DecimalType):
            return T.DecimalType(38, self.of.scale)
        return T.DecimalType(38, 0)

    def from_sums(self) -> bool:
        """Whether counts and an exact sum are enough."""
        if self.distinct:
            return False
        if self.function == "count":
            return True
        if self.function not in ("sum", "avg"):
            return False
        if isinstance(self.of, T.DecimalType):
            # Division keeps fewer digits of wider ones than Spark's own average.
            return self.function == "sum" or self.of.precision <= 14
        return isinstance(self.of, WHOLE)

    def finished(self, total: str, count: str) -> str:
        """SQL of the result from the kept sum and count."""
        if self.function == "count":
            return count
        to = self.type.simpleString()
        if self.function == "sum":
            return f"if({count} = 0, null, cast({total} as {to}))"
        if isinstance(self.of, T.DecimalType):
            wide = f"cast({total} as decimal({self.of.precision + 10}, {self.of.scale}))"
            ratio = f"{wide} / cast(nullif({count}, 0) as decimal(20, 0))"
            return f"cast({ratio} as {to})"
        return f"cast({total} as double) / nullif({count}, 0)"


def call_of(expression: Node, at: int) -> Call:
    """Read an aggregate of an analysed plan; its columns are named by its place."""
    function = plain(expression.aggregateFunction())
    condition = option(expression.filter())
    arguments = [plain(argument) for argument in _arguments(function)]
    return Call(
        function=str(function.prettyName()).lower(),
        names=tuple(f"x{at}_{place}" for place in range(len(arguments))),
        arguments=tuple(arguments),
        where=None if condition is None else f"w{at}",
        condition=condition,
        distinct=bool(expression.isDistinct()),
        type=type_of(expression),
        of=type_of(arguments[0]) if len(arguments) == 1 else None,
    )


def _arguments(function: Node) -> Sequence[Node]:
    found = children(function)
    if str(function.prettyName()).lower() == "count":
        # count(*) counts a constant.
        return [child for child in found if kind(child) != "Literal"]
    return found
