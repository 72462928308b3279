"""The aggregates that windows may use, each computed independently of the order of rows.

There are two ways. From the rows, for every aggregate in `FROM_ROWS`: the state keeps the rows of a
window, and an aggregate that depends on their order uses the order of values. From sums, if a value
can be subtracted as well as added: the state keeps only counts and exact sums of each group.
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
    # If several rows have the same greatest or least y, take the greatest or least x.
    "max_by": "max_by({0}, if({1} is null, null, struct({1}, {0}))){filter}",
    "min_by": "min_by({0}, if({1} is null, null, struct({1}, {0}))){filter}",
}
"""SQL by Spark's name of the aggregate."""
FLOAT_SUMS: Mapping[str, str] = {
    "sum": _SOME.replace("{what}", _SORTED_SUM),
    "avg": _SOME.replace("{what}", _SORTED_SUM + " / count({0}){filter}"),
}
"""The same for floating point numbers, whose sums depend on the order of addition."""
WHOLE_AVERAGE = (
    "cast(sum(cast({0} as decimal(38, 0))){filter} as double) / nullif(count({0}){filter}, 0)"
)
WHOLE = T.ByteType | T.ShortType | T.IntegerType | T.LongType


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An aggregate of a query. `names` are the columns of its arguments, `where` is the column of
    its condition."""

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
        """Return SQL over the rows of a group; None for an aggregate that is not supported."""
        template = FROM_ROWS.get(self.function)
        if template is not None and isinstance(self.of, T.FloatType | T.DoubleType):
            # Distinct values have no fixed order either.
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
        """Return SQL for whether a row counts."""
        tests = [f"{name} is not null" for name in self.names]
        return " and ".join([*tests, self.where] if self.where else tests) or "true"

    def sum_type(self) -> T.DecimalType | None:
        """Return the type of the exact sum that the state keeps; None if no sum is needed."""
        if self.function == "count":
            return None
        if isinstance(self.of, T.DecimalType):
            return T.DecimalType(38, self.of.scale)
        return T.DecimalType(38, 0)

    def from_sums(self) -> bool:
        """Return whether a count and an exact sum are enough to compute the aggregate."""
        if self.distinct:
            return False
        if self.function == "count":
            return True
        if self.function not in ("sum", "avg"):
            return False
        if isinstance(self.of, T.DecimalType):
            # For wider decimals, the division keeps fewer digits than Spark's own average.
            return self.function == "sum" or self.of.precision <= 14
        return isinstance(self.of, WHOLE)

    def finished(self, total: str, count: str) -> str:
        """Return SQL for the result, from the kept sum and count."""
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
    """Read an aggregate of an analysed plan; its number `at` is part of its column names."""
    function = plain(expression.aggregateFunction())
    condition = option(expression.filter())
    is_distinct = bool(expression.isDistinct())
    arguments = [plain(argument) for argument in _arguments(function, is_distinct=is_distinct)]
    return Call(
        function=str(function.prettyName()).lower(),
        names=tuple(f"x{at}_{place}" for place in range(len(arguments))),
        arguments=tuple(arguments),
        where=None if condition is None else f"w{at}",
        condition=condition,
        distinct=is_distinct,
        type=type_of(expression),
        of=type_of(arguments[0]) if len(arguments) == 1 else None,
    )


def _arguments(function: Node, *, is_distinct: bool) -> Sequence[Node]:
    found = children(function)
    if str(function.prettyName()).lower() == "count" and not is_distinct:
        # count(*) counts a constant, which needs no column; but a null is never counted.
        return [one for one in found if kind(one) != "Literal" or one.value() is None]
    return found
