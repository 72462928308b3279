"""Run a transform on Spark: SQL steps over views of the inputs, rows in the order of the inputs.

Extend Spark plans: pass the number of the input row along, and make a final order total.

A hidden column passes from the inputs to the result, for plans that compute each row from one
input row. The author of the query does not see it.

Run transforms that depend on rows of earlier iterations, by the package `stateful`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from odf_protocol.metadata.events import SqlQueryStep

from ..iteration.inputs import BATCH_ROWS, EngineInput
from ..iteration.transform import ComputedResult, Work
from ..port.port import (
    ORDER_OF_CHANGES,
    ROW,
    ROW_BITS,
    InvalidQuery,
    NotIncremental,
    blamed_on,
    steps_of,
)
from ..port.tracing import Arrival, Condition, Sought, Trace
from ..spark.allowed import TRANSFORM
from ..spark.catalyst import EXPRESSIONS, Catalyst, Node, children, items, kind, quoted
from ..spark.frames import read_parquet, written_batches
from ..spark.limit import has_constant_moment, has_literal_moment, without_today
from ..spark.plan import check_repeatable, check_row_by_row, judged, not_repeatable
from ..stateful import Dropped, NewRows, Plan, StatefulInput, run, stateful_plan, trace
from ..stateful.narrowing import Narrowing
from ..stateful.plan import as_of_joins

ORDER_INSIDE = "ORDER BY is possible at the end of the last query only"


def analysed(catalyst: Catalyst, frame: DataFrame, parts: frozenset[str]) -> Node:
    """Return the frame's plan, with common table expressions inlined."""
    plan = catalyst.plan(frame)
    if "WithCTE" not in parts:
        return plan
    return catalyst.inlined(plan)


def with_rows(catalyst: Catalyst, plan: Node) -> DataFrame:
    """Return a frame with the columns of the plan and `ROW`, which the views of its inputs hide.

    A call into the JVM costs as much as the work on many rows, so lists stay in the JVM.
    """
    return catalyst.frame(_carried(catalyst, plan)[0])


def in_total_order(catalyst: Catalyst, plan: Node) -> DataFrame:
    """Return a frame of the plan with all sortable columns added to its ORDER BY. Raise
    `InvalidQuery` if the plan is not sorted at its end."""
    top = plan if kind(plan) == "Project" else None
    sort = children(plan)[0] if top is not None else plan
    if kind(sort) != "Sort" or not getattr(sort, "global")():
        raise InvalidQuery(ORDER_INSIDE)
    below = children(sort)[0]
    ties = [_ascending(catalyst, each) for each in items(below.output()) if _can_order(each)]
    total = sort.copy(catalyst.seq([*items(sort.order()), *ties]), True, below, sort.hint())
    if top is not None:
        total = top.withNewChildren(catalyst.seq([total]))
    return catalyst.frame(total)


def _carried(catalyst: Catalyst, node: Node) -> tuple[Node, Node]:
    """Return the node with `ROW` among its columns, and that column."""
    name = kind(node)
    if name == "Project":
        last = node.output().last()
        if last.name() == ROW:
            return node, last
    nodes = children(node)
    below = [_carried(catalyst, child) for child in nodes]
    plan, row = below[0]
    match name:
        case "Project":
            return node.copy(node.projectList().appended(row), plan), row
        case "Expand":
            return catalyst.expand(node, [row], plan), row
        case "Union":
            branches = [
                branch
                if kind(child) == "Project"
                else catalyst.project([*items(child.output()), column], branch)
                for child, (branch, column) in zip(nodes, below, strict=True)
            ]
            union = node.withNewChildren(catalyst.seq(branches))
            return union, union.output().last()
        case _:
            return node.withNewChildren(catalyst.seq([plan])), row


def _ascending(catalyst: Catalyst, column: Node) -> Node:
    direction, nulls = (
        getattr(catalyst.class_of(EXPRESSIONS, name), "MODULE$")
        for name in ("Ascending$", "NullsFirst$")
    )
    return catalyst.class_of(EXPRESSIONS, "SortOrder")(column, direction, nulls, catalyst.seq([]))


def _can_order(column: Node) -> bool:
    text = column.dataType().catalogString()
    return not any(kind in text for kind in ("map<", "variant", "interval"))


KEPT_PLANS = 16
"""Limit of cached plans: as many stateful queries as are likely to take turns on a worker."""
_DROPPED = {
    "late": "{} rows were older than the allowed lateness and came to nothing",
    "late_changes": "{} changes of rows older than the allowed lateness came to nothing",
    "unmatched": "{} retractions or corrections were of rows that are not there",
}


class Plans:
    """Cache of the plans of queries that ran here. One run at a time may use a plan."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Plan] = OrderedDict()

    def taken(self, work: Work, session: SparkSession) -> Plan | None:
        """Remove the plan of a query from the cache and return it. Return None if it is missing or
        belongs to another Spark."""
        with self._lock:
            plan = self._kept.pop(_key(work), None)
        if plan is None or plan.catalyst.session.sparkContext is not session.sparkContext:
            return None
        return plan

    def put_back(self, work: Work, plan: Plan) -> None:
        """Return a plan to the cache, after a run without errors."""
        with self._lock:
            self._kept[_key(work)] = plan
            while len(self._kept) > KEPT_PLANS:
                self._kept.popitem(last=False)


def plan_with_state(work: Work, session: SparkSession) -> Plan | None:
    """Plan a query that was checked; return None if it needs no state.

    Raises:
        InvalidQuery: the query is wrong, or its result cannot be kept up to date.
    """
    return stateful_plan(session, work.transform, _inputs(work), work.vocab)


def compute_with_state(work: Work, plan: Plan) -> ComputedResult:
    """Compute the rows of the query and its new state.

    Raises:
        InvalidQuery: the query cannot be computed over these rows.
    """
    state, rows = work.scratch / "new-state", work.scratch / "rows"
    result = run(
        plan,
        [_new_rows(item) for item in work.inputs],
        state=work.state,
        new_state=state,
        output=rows,
        scratch=work.scratch,
    )
    _tell(work, result.dropped)
    return ComputedResult(
        schema=result.schema,
        batches=pq.ParquetFile(rows).iter_batches(BATCH_ROWS),
        state=lambda: state,
        delays=True,
        watermark=result.watermark,
        keeps_corrections=True,
    )


def _key(work: Work) -> Hashable:
    """Return everything on which a plan depends."""
    return work.transform, _inputs(work), work.vocab


def _inputs(work: Work) -> tuple[StatefulInput, ...]:
    return tuple(
        StatefulInput(alias=item.alias, schema=item.schema, vocab=item.vocab)
        for item in work.inputs
    )


def _new_rows(item: EngineInput) -> NewRows:
    return NewRows(
        alias=item.alias,
        paths=(item.path,) if item.rows else (),
        interval=item.interval if item.rows else None,
        watermark=item.watermark,
    )


def _tell(work: Work, dropped: Dropped) -> None:
    work.listener.late(dropped.late + dropped.late_changes)
    for name, text in _DROPPED.items():
        if count := getattr(dropped, name):
            work.listener.warning(text.format(count))


SMALL_ROWS = 200_000
"""Limit of input rows for which the result is collected in memory; more rows pass through files."""


def compute(work: Work, session: SparkSession, plans: Plans) -> ComputedResult:
    """Compute the rows of the query. `session` is for `TRANSFORM`, and no other request uses it;
    `plans` is the engine's cache.

    Raises:
        InvalidQuery: the query is wrong, or may not run.
    """
    steps = steps_of(work.transform)
    if (known := plans.taken(work, session)) is not None:
        with blamed_on(steps):
            return _with_state(work, known, plans)
    changes = any(item.has_changes for item in work.inputs)
    for at, item in enumerate(work.inputs):
        register(session, item, at if changes else None)
    result, parts = _last(session, work, steps)
    catalyst = Catalyst(session)
    with blamed_on(steps):
        check_repeatable(parts)
        if has_constant_moment(catalyst, catalyst.plan(result)):
            raise not_repeatable("the time of day as a text")
    try:
        check_row_by_row(parts)
    except NotIncremental:
        with blamed_on(steps):
            if (plan := plan_with_state(work, session)) is None:
                raise
            return _with_state(work, plan, plans)
    if "ToTimestamp" in parts:
        with blamed_on(steps):
            plan = without_today(catalyst, catalyst.plan(result), steps)
        result = catalyst.frame(plan)
    has_operations = work.vocab.operation_type_column in result.columns
    with blamed_on(steps):
        result = _prepared(catalyst, result, parts, follows=changes and has_operations)
    return ComputedResult(
        schema=to_arrow_schema(result.schema, timezone="UTC"),
        batches=_rows(result, work, grows="Generate" in parts),
    )


def narrowed(
    work: Work, values: Mapping[str, str], session: SparkSession, plans: Plans
) -> list[tuple[Condition, ...]]:
    """Return what the rows of each input have in common from which a row with these values was
    made. Raises `InvalidQuery`."""
    with blamed_on(steps_of(work.transform)):
        plan = plans.taken(work, session) or plan_with_state(work, session)
    if plan is None:
        return [()] * len(work.inputs)
    aliases = frozenset(item.alias for item in work.inputs)
    found = Narrowing(plan.catalyst, aliases).of(plan.query, values)
    plans.put_back(work, plan)
    return [found.get(item.alias, ()) for item in work.inputs]


def traced(
    work: Work, sought: Sought, arrivals: Sequence[Arrival], session: SparkSession, plans: Plans
) -> Trace:
    """Trace a row of the result of a query that keeps rows. `session` and `plans` are as in
    `compute`.

    Raises:
        InvalidQuery: the query keeps no rows, or cannot be computed over these.
    """
    steps = steps_of(work.transform)
    with blamed_on(steps):
        plan = plans.taken(work, session) or plan_with_state(work, session)
        if plan is None:
            raise InvalidQuery("the query computes row by row, so there is no state to trace")
        given = [_new_rows(item) for item in work.inputs]
        found = trace(plan, given, sought, arrivals, work.scratch)
    plans.put_back(work, plan)
    return found


def _with_state(work: Work, plan: Plan, plans: Plans) -> ComputedResult:
    computed = compute_with_state(work, plan)
    plans.put_back(work, plan)
    return computed


def register(session: SparkSession, item: EngineInput, number: int | None = None) -> None:
    """Create a view of the input under its alias, which may contain any characters.

    With a number, the rows also have the column `ROW`, which the view hides from queries; a plan
    can pass it along.
    """
    frame = read_parquet(session, [item.path], item.schema)
    if number is not None:
        offset = quoted(item.vocab.offset_column)
        numbered = frame.selectExpr("*", f"{offset} + {number << ROW_BITS} as {quoted(ROW)}")
        frame = numbered.drop(ROW)
    frame.createTempView(quoted(item.alias))


def _last(
    session: SparkSession, work: Work, steps: Sequence[SqlQueryStep]
) -> tuple[DataFrame, frozenset[str]]:
    """Return the frame and parts of the last step; earlier steps become views. Raise
    `InvalidQuery`."""
    event_times = {item.alias: item.vocab.event_time_column for item in work.inputs}
    for number, step in enumerate(steps):
        with blamed_on(steps, number):
            frame, parts = _checked(session, as_of_joins(step.query, event_times))
        if number < len(steps) - 1:
            frame.createTempView(quoted(str(step.alias)))
    return frame, parts


def _checked(session: SparkSession, query: str) -> tuple[DataFrame, frozenset[str]]:
    if has_literal_moment(query):
        raise not_repeatable("the time of day as a literal")
    return judged(session, query, TRANSFORM)


def _prepared(
    catalyst: Catalyst, result: DataFrame, parts: frozenset[str], *, follows: bool
) -> DataFrame:
    """Return the query with a total order if it sorts, or with `ROW` if it `follows` changes."""
    if "Sort" not in parts and not follows:
        return result
    plan = analysed(catalyst, result, parts)
    if "Sort" not in parts:
        return with_rows(catalyst, plan)
    if follows:
        raise InvalidQuery(ORDER_OF_CHANGES)
    return in_total_order(catalyst, plan)


def _rows(result: DataFrame, work: Work, *, grows: bool) -> Iterator[pa.RecordBatch]:
    count = sum(item.rows for item in work.inputs)
    if count == 0:
        return
    if count <= SMALL_ROWS and not grows:
        yield from result.toArrow().to_batches()
        return
    yield from written_batches(result, work.scratch)
