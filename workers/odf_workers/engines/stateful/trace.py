"""Trace a row of a stateful query to rows of the inputs.

The query runs once over all rows that may matter, with an empty state. Each row carries an id in
place of its group: the input and offset it is from, or the operator and row that computed it. So a
row of the result names a row of an operator, that one its rows on the sides of the operator, and so
on down to the inputs. Which rows of a side made a row of the result is one function per operator.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812

from ..exchange import worker_side as exchange
from ..iteration.transform import plan_result, shaped
from ..port.port import ROW, ROW_BITS, InvalidQuery
from ..port.tracing import Arrival, Role, Sought, Trace, Witness, rows_like
from ..spark.catalyst import col
from ..spark.plan import reason
from .operators import AsOfJoin, FunctionCall, IntervalJoin, Operator, Ranking, Window, back
from .plan import Plan
from .query import NewRows
from .results import PLACE, best_first
from .step import NANOS, Made, StateRun, advance
from .times import AT, GROUP, SEQ, SIGN, framed

FORMS = {
    Window: "window",
    Ranking: "ranking",
    IntervalJoin: "interval join",
    AsOfJoin: "as-of join",
}
_WITNESSED = frozenset({"min", "max", "min_by", "max_by"})
"""Aggregates whose value one row of the group shows."""
_NUMBER = (1 << ROW_BITS) - 1
Found = tuple[int, Role]
"""The id of a row, and what it did."""


def trace(
    plan: Plan, rows: Sequence[NewRows], sought: Sought, arrivals: Sequence[Arrival], scratch: Path
) -> Trace:
    """Trace a row. `arrivals` are in the order of the plan's inputs.

    Raises:
        InvalidQuery: Spark cannot compute the query over these rows.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        try:
            return _Tracing(plan, rows, Path(folder), arrivals).traced(sought)
        except (PySparkException, Py4JJavaError) as bad:
            if (failed := exchange.failed(bad)) is not None:
                raise failed from bad
            raise InvalidQuery(reason(bad)) from None


@dataclass(frozen=True, slots=True)
class _Ran:
    """An operator that ran: the rows of its sides and of its result, with their ids."""

    operator: Operator
    sides: tuple[pa.Table, ...]
    result: pa.Table


class _Tracing(StateRun):
    """A run over all rows, whose rows carry ids."""

    def __init__(
        self, plan: Plan, rows: Sequence[NewRows], scratch: Path, arrivals: Sequence[Arrival]
    ) -> None:
        super().__init__(plan, rows, None, scratch, None)
        self._arrivals = arrivals
        self._ran: list[_Ran] = []
        self._numbers = {given.alias: at for at, given in enumerate(plan.inputs)}
        self._notes: list[str] = []

    def input(self, alias: str) -> DataFrame:
        frame = super().input(alias)
        return frame.withColumn(GROUP, col(SEQ) + (self._numbers[alias] << ROW_BITS))

    def traced(self, sought: Sought) -> Trace:
        forms = tuple(FORMS[type(each)] for each in self.plan.operators)
        for place, operator in enumerate(self.plan.operators):
            self._run(place, operator)
        found = self._of_result(sought)
        witnesses = set() if found is None else set(self._witnesses(found, Role.SOURCE, set()))
        return Trace(forms=forms, witnesses=tuple(sorted(witnesses)), notes=tuple(self._notes))

    def _run(self, place: int, operator: Operator) -> None:
        frames, sides = [], []
        for at in range(len(operator.sides)):
            frame, table = self._side(place, operator, at)
            frames.append(frame)
            sides.append(table)
        given = tuple(
            replace(side, rows=lambda _, frame=frame: frame)
            for side, frame in zip(operator.sides, frames, strict=True)
        )
        made = advance(self.context, self, place, replace(operator, sides=given))
        computed = self.context.compute(made.changes, f"made-{place}")
        table = _read(computed.files)
        ids = np.arange(table.num_rows, dtype=np.int64)
        ids += (len(self._numbers) + place) << ROW_BITS
        table = table.set_column(table.schema.get_field_index(GROUP), GROUP, pa.array(ids))
        self.results.append(Made(self._kept(table, f"ids-{place}", computed.schema), True))
        self._ran.append(_Ran(operator, tuple(sides), table))

    def _side(self, place: int, operator: Operator, at: int) -> tuple[DataFrame, pa.Table]:
        """Return the rows of a side that came in time."""
        name, context = f"side-{place}-{at}", self.context
        computed = context.compute(operator.sides[at].rows(self), name)
        table = _read(computed.files)
        timely = self._timely(table, operator, at)
        if timely.all():
            frame = context.read(computed.files, computed.schema)
        else:
            table = table.filter(pa.array(timely))
            frame = self._kept(table, f"timely-{place}-{at}", computed.schema)
        if isinstance(operator, Ranking):
            keys = [col(key) for key in operator.sides[0].bucket]
            over = Over.partitionBy(*keys).orderBy(*best_first(operator))
            ranked = frame.withColumn(PLACE, F.row_number().over(over))
            table = _read(context.compute(ranked, f"ranked-{place}").files)
        return frame, table

    def _kept(self, table: pa.Table, name: str, schema: Any) -> DataFrame:
        path = self.context.scratch / f"{name}.parquet"
        pq.write_table(table, path, compression="snappy")
        return self.context.read([path], schema)

    def _timely(self, table: pa.Table, operator: Operator, at: int) -> np.ndarray[Any, Any]:
        """Return a mask of the rows that were not late when they were read. Rows that an operator
        computed are in time."""
        ids = table.column(GROUP).to_numpy()
        times = table.column(AT)
        known = pc.is_valid(times).to_numpy(zero_copy_only=False)
        when = pc.fill_null(times, 0).to_numpy()
        inputs, offsets = ids >> ROW_BITS, ids & _NUMBER
        timely: np.ndarray[Any, Any] = known.copy()
        clock = operator.sides[at].clock
        bounds = [
            clock.at(back(self._micros(arrival), self.plan.lateness)) for arrival in self._arrivals
        ]
        for number in range(len(self._numbers)):
            mine = inputs == number
            if not mine.any() or not bounds:
                continue
            ends = np.array([arrival.offsets[number] for arrival in self._arrivals])
            run = np.minimum(np.searchsorted(ends, offsets[mine]), len(ends) - 1)
            horizon = np.array([-(2**63) if each is None else each for each in bounds])
            timely[mine] &= when[mine] >= horizon[run]
        return timely

    def _micros(self, arrival: Arrival) -> dict[str, int | None]:
        marks = zip(self._numbers, arrival.watermarks, strict=True)
        return {alias: None if mark is None else mark.ns // NANOS for alias, mark in marks}

    def _of_result(self, sought: Sought) -> int | None:
        """Return the id of a row of the result that is equal to the sought one; of several, another
        one for each equal row of a slice. A slice may have more of them than stand now."""
        plan, row = self.plan, sought.row
        frame = framed(plan.catalyst, plan.part, self, plan.columns)
        computed = self.context.compute(frame, "result")
        table = _read(computed.files)
        ids = table.column(GROUP)
        table = table.drop_columns([SIGN, SEQ, GROUP]).append_column(ROW, ids)
        made = plan_result(table.schema, plan.vocab)
        parts = list(shaped(iter(table.combine_chunks().to_batches()), made))
        if not parts:
            return None
        whole = pa.Table.from_batches(parts)
        names = [field.name for field in made.data if field.name in row.schema.names]
        like = rows_like(whole, {name: row.column(name)[0] for name in names})
        found = sorted(whole.column(ROW).filter(like).to_pylist())
        return int(found[sought.nth % len(found)]) if found else None

    def _witnesses(self, row: int, role: Role, seen: set[Found]) -> Iterator[Witness]:
        if (row, role) in seen:
            return
        seen.add((row, role))
        leaf, number = row >> ROW_BITS, row & _NUMBER
        if leaf < len(self._numbers):
            yield Witness(leaf, number, role)
            return
        ran = self._ran[leaf - len(self._numbers)]
        for below, part in self._below(ran, ran.result.slice(number, 1)):
            yield from self._witnesses(below, _composed(role, part), seen)

    def _below(self, ran: _Ran, row: pa.Table) -> list[Found]:
        match ran.operator:
            case Window() as window:
                return _of_window(window, ran.sides[0], row)
            case Ranking() as ranking:
                return _of_ranking(ranking, ran.sides[0], row)
            case join:
                pair = _of_join(join, ran.sides, row)
                if len(pair) == 1:
                    self._notes.append(_ALONE[type(join)])
                elif isinstance(join, AsOfJoin):
                    self._notes.append("no later row of the key lies between the two rows")
                return pair


_ALONE = {
    IntervalJoin: "no partner was found within the interval, below the watermark",
    AsOfJoin: "no row of the key is before the row",
}


def _composed(outer: Role, inner: Role) -> Role:
    """Return what a row did that did `inner` for a row that did `outer`."""
    if Role.RANK in (outer, inner):
        return Role.RANK
    return outer if inner is Role.SOURCE else inner


def _read(files: Sequence[Path]) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in files])


def _ids(rows: pa.Table) -> list[int]:
    ids: list[int] = rows.column(GROUP).to_pylist()
    return ids


def _values(row: pa.Table, names: Sequence[str]) -> dict[str, pa.Scalar]:
    return {name: row.column(name)[0] for name in names}


def _of_window(operator: Window, side: pa.Table, row: pa.Table) -> list[Found]:
    """Return the rows of a group; if one row each shows all values, those, and the rest as rows
    that they were compared with."""
    group = side.filter(rows_like(side, _values(row, operator.keys)))
    ids = _ids(group)
    if not operator.calls or any(call.function not in _WITNESSED for call in operator.calls):
        return [(each, Role.GROUP) for each in ids]
    shown = {_shows(call, group) for call in operator.calls}
    if None in shown:  # a value of no row
        return [(each, Role.GROUP) for each in ids]
    return [(each, Role.SOURCE if at in shown else Role.RANK) for at, each in enumerate(ids)]


def _shows(call: FunctionCall, group: pa.Table) -> int | None:
    """Return which row of a group shows the value of an aggregate; None if none does."""
    columns = [group.column(name).to_pylist() for name in call.names]
    where = group.column(call.where).to_pylist() if call.where else [True] * group.num_rows
    by = columns[-1]
    known = [at for at, each in enumerate(by) if each is not None and where[at]]
    if not known:
        return None
    best = max if call.function.startswith("max") else min

    def order(at: int) -> Any:
        # NaN is above all numbers, and null below all values.
        return [
            (value is not None, value != value, 0 if value is None or value != value else value)
            for value in (by[at], columns[0][at])
        ]

    try:
        return best(known, key=order)
    except TypeError:  # values without an order of Python's, such as structs
        return None


def _of_ranking(operator: Ranking, side: pa.Table, row: pa.Table) -> list[Found]:
    shown = [name for name in operator.sides[0].columns if name.startswith("c")]
    wanted = _values(row, shown)
    if operator.visible:
        wanted[PLACE] = row.column(PLACE)[0]
    best = pc.less_equal(side.column(PLACE), operator.limit)
    mine = side.filter(pc.and_(rows_like(side, wanted), best))
    if not mine.num_rows:
        return []
    mine = mine.slice(0, 1)
    partition = rows_like(side, _values(mine, operator.sides[0].bucket))
    better = pc.and_(partition, pc.less(side.column(PLACE), mine.column(PLACE)[0]))
    return [
        (_ids(mine)[0], Role.SOURCE),
        *((each, Role.RANK) for each in _ids(side.filter(better))),
    ]


def _of_join(
    operator: IntervalJoin | AsOfJoin, sides: Sequence[pa.Table], row: pa.Table
) -> list[Found]:
    """Return the pair of rows, or a left row alone."""
    left, right = (
        side.filter(rows_like(side, _values(row, _shown(operator, at))))
        for at, side in enumerate(sides)
    )
    lefts, rights = left.to_pylist(), _newest_first(right.to_pylist())
    for one in lefts:
        for other in rights:
            if _are_partners(operator, one, other):
                return [(one[GROUP], Role.SOURCE), (other[GROUP], Role.MATCH)]
    return [(one[GROUP], Role.SOURCE) for one in lefts[:1]]


def _newest_first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(
        rows, key=lambda row: (row[AT], -1 if row[SEQ] is None else row[SEQ]), reverse=True
    )


def _shown(operator: IntervalJoin | AsOfJoin, side: int) -> list[str]:
    return [name for name in operator.sides[side].columns if name[1:].isdigit()]


def _are_partners(
    operator: IntervalJoin | AsOfJoin, left: dict[str, Any], right: dict[str, Any]
) -> bool:
    for one, other, safe in operator.keys:
        if left[one] != right[other] or (left[one] is None and not safe):
            return False
    apart = right[AT] - left[AT]
    if isinstance(operator, AsOfJoin):
        return bool(apart <= 0)
    return bool(operator.lower <= apart <= operator.upper)
