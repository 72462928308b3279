"""What SQL means on DataFusion: numbers do not wrap, -0.0 is 0.0, NaN is one, times keep digits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig, SessionContext

from odf_protocol.sql_text import quoted_name
from odf_workers.engines.datafusion.meaning import as_sql_means
from odf_workers.engines.datafusion.process import SETTINGS, batches, meant
from odf_workers.engines.port.port import InvalidQuery

NAN, OTHER_NAN = math.nan, math.copysign(math.nan, -1)
ROWS = pa.table(
    {
        "i": pa.array([2_000_000_000, 2, 3, 4], pa.int32()),
        "b": pa.array([2**62, 2**62, 1, -5], pa.int64()),
        "u": pa.array([2**64 - 1, 3, 1, 1], pa.uint64()),
        "s": pa.array([100, 100, 1, 2], pa.int8()),
        "x": pa.array([0.0, -0.0, OTHER_NAN, NAN], pa.float64()),
        "f": pa.array([0.0, -0.0, OTHER_NAN, NAN], pa.float32()),
        "d": pa.array([Decimal(10**38 - 1), Decimal(10**38 - 1), Decimal(1), Decimal(2)]),
        "k": pa.array(["a", "b", "a", "b"]),
    }
)


@pytest.fixture(scope="module", params=["t", "net.example.t", 'a "T" b'])
def table(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The name of the table in queries, and a function that computes a query."""
    folder: Path = tmp_path_factory.mktemp("rows")
    pq.write_table(ROWS, folder / "rows.parquet")
    context = SessionContext(SessionConfig(SETTINGS))
    context.register_parquet(quoted_name("?files?"), f"{folder}/", parquet_pruning=False)
    context.register_view(quoted_name(request.param), context.sql('select * from "?files?"'))

    def compute(text: str) -> tuple[list[Any], ...]:
        given = context.sql(text.replace("TABLE", quoted_name(request.param)))
        made = as_sql_means(context, given)
        assert made.schema().names == given.schema().names
        assert made.schema().types == given.schema().types
        return tuple(made.to_pydict().values())

    return compute


@pytest.mark.parametrize(
    "expression",
    [
        "i * i",
        "i + i",
        "i * 2 * i * i",
        "b + b",
        "b * b",
        "b * 4",
        "-2 - b - b - b",
        "u + u",
        "u * u",
        "s + s",
        "sum(abs(b))",
        "sum(abs(b)) over ()",
        "sum(b + 7)",
        "sum(u)",
        "sum(d)",
        "9223372036854775807 + 1",
        "(select sum(b + 7) from TABLE)",
        "case when k = 'a' then b + b else b * 4 end",
        "array_agg(b * b)",
    ],
)
def test_a_number_that_leaves_its_type_is_an_error(table: Any, expression: str) -> None:
    with pytest.raises(Exception, match=r"(?i)cast|overflow|precision"):
        table(f"select {expression} as y from TABLE")


@pytest.fixture
def context(tmp_path: Path) -> SessionContext:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    made = SessionContext(SessionConfig(SETTINGS))
    made.register_parquet("t", str(tmp_path / "rows.parquet"))
    return made


def test_a_decimal_with_a_digit_too_many_is_an_error(context: SessionContext) -> None:
    result = meant(context, context.sql("select d + 1 as y from t"))
    with pytest.raises(pa.ArrowInvalid, match="precision"):
        list(batches(result, pa.schema([("y", pa.decimal128(38, 0))])))


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("select i * i as y from TABLE where i < 10", [4, 9, 16]),
        ("select i + 2000000000 as y from TABLE", [4 * 10**9, 2000000002, 2000000003, 2000000004]),
        ("select b * 2 - b as y from TABLE where b < 100", [1, -5]),
        ("select sum(b) as y from TABLE", [2**63 - 4]),
        ("select sum(b) from TABLE group by k order by k", [2**62 + 1, 2**62 - 5]),
        ("select sum(b) from TABLE having sum(b) > 7", [2**63 - 4]),
        ("select sum(s) as y from TABLE", [203]),
        ("select sum(d) as y from TABLE where d < 10", [Decimal(3)]),
        ("select sum(distinct b) as y from TABLE", [2**62 - 4]),
        ("select u - 1 - 1 as y from TABLE where u > 2", [Decimal(2**64 - 3), Decimal(1)]),
        ("select date '2024-01-31' + interval '1 day' = '2024-02-01' as y", [True]),
        ("select avg(b) as y from TABLE where b < 100", [-2.0]),
    ],
)
def test_numbers_that_stay_in_their_type_are_what_they_were(
    table: Any, query: str, values: list[Any]
) -> None:
    assert table(query) == (values,)


@pytest.mark.parametrize(
    "column",
    ["x", "f", "-x", "x * -1", "round(x)", "[x][1]", "case when k <> '' then x end"],
)
@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("select k from (Q) where x = 0", ["a", "b"]),
        ("select k from (Q) where x = -0.0", ["a", "b"]),
        ("select k from (Q) where x <> 0", ["a", "b"]),
        ("select k from (Q) where x >= 0 and x < 1", ["a", "b"]),
        ("select k from (Q) where x < 0", []),
        ("select k from (Q) where x > 5", ["a", "b"]),
        ("select k from (Q) where x = 'NaN'", ["a", "b"]),
        ("select k from (Q) where x between 0 and 1", ["a", "b"]),
        ("select k from (Q) where x in (7, 0)", ["a", "b"]),
        ("select k from (Q) where x not in (7, 0)", ["a", "b"]),
        ("select k from (Q) where x is not distinct from 0.0", ["a", "b"]),
        ("select k from (Q) where (x = 0) is true", ["a", "b"]),
        ("select k from (Q) where nullif(x, 0.0) is null", ["a", "b"]),
        ("select case x when 0 then 'z' else 'n' end from (Q) order by 1", ["n", "n", "z", "z"]),
        ("select count(*) from (Q) group by x order by 1", [2, 2]),
        ("select count(*) from (Q) group by x + 1 order by 1", [2, 2]),
        ("select count(*) from (select distinct x from (Q))", [2]),
        ("select count(*) from (select x from (Q) union select x from (Q))", [2]),
        ("select count(*) from (select x from (Q) except select x from (Q) where k = 'a')", [0]),
        ("select count(distinct x) from (Q)", [2]),
        ("select count(*) from (select distinct on (x) x, k from (Q) order by x)", [2]),
        ("select count(*) from (Q) a join (Q) b on a.x = b.x", [8]),
        ("select count(*) from (Q) a join (Q) b using (x)", [8]),
        ("select count(*) from (Q) a left join (Q) b on a.x = b.x and a.k < b.k", [4]),
        ("select count(*) from (Q) q where q.x in (select r.x from (Q) r where r.k = 'a')", [4]),
        ("select count(*) from (Q) a where exists (select 1 from (Q) b where b.x = a.x)", [4]),
        ("select k from (Q) where x = (select min(x) from (Q))", ["a", "b"]),
        ("select row_number() over (partition by x order by k) from (Q) order by 1", [1, 1, 2, 2]),
        ("select k from (Q) order by x, k", ["a", "b", "a", "b"]),
        ("select k from (Q) order by x desc, k limit 2", ["a", "b"]),
        ("select count(*) from (Q) group by rollup(x) order by 1", [2, 2, 4]),
        ("select max(x) > 5 from (Q)", [True]),
        ("select min(x) = 0 from (Q)", [True]),
    ],
)
def test_zero_is_one_number_and_nan_is_one_above_all_others(
    table: Any, column: str, query: str, values: list[Any]
) -> None:
    rows = f"select {column} as x, k from TABLE"
    assert table(query.replace("Q", rows)) == (values,)


def test_a_column_that_is_passed_on_keeps_its_bits(table: Any) -> None:
    (found,) = table("select x from TABLE where x = 0 order by x, k")
    assert [math.copysign(1, each) for each in found] == [1.0, -1.0]


def test_a_plan_without_such_parts_is_not_touched(context: SessionContext) -> None:
    for text in ("select k, count(*) from t group by k", "select b / 2, i % 3, -i from t"):
        given = context.sql(text)
        assert meant(context, given) is given


def test_what_cannot_be_checked_is_refused_unless_it_computes_nothing(
    context: SessionContext,
) -> None:
    harmless = context.sql("select value from generate_series(1, 3) where value > 1")
    assert meant(context, harmless) is harmless
    for text in ("sum(value)", "value * value", "value - 1"):
        with pytest.raises(InvalidQuery, match="cannot check"):
            meant(context, context.sql(f"select {text} from generate_series(1, 3)"))


SECOND = 1_700_000_000
TIMES = pa.table(
    {
        "s": pa.array([SECOND, -1, None], pa.timestamp("s", "UTC")),
        "t": pa.array([SECOND * 10**3 + 123, -1000, None], pa.timestamp("ms", "UTC")),
        "u": pa.array([SECOND * 10**6 + 123_456, -1_000_000, 0], pa.timestamp("us", "UTC")),
        "n": pa.array([SECOND * 10**9 + 123_456_789, -1_000_000_000, 0], pa.timestamp("ns")),
    }
)
AT = "2023-11-14T22:13:20.123"
USING = "select a.s as y from (select s, t as k from x) a join (select u as k from x) b using (k)"
CUT_BY_ITS_AUTHOR = (
    "select s as y from x where exists (select 1 from x b where x.t = "
    "arrow_cast(b.u, 'Timestamp(Millisecond, Some(\"UTC\"))')) order by 1"
)


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that computes a query on `TIMES`, rewritten or as the engine has it."""
    folder = tmp_path_factory.mktemp("times")
    pq.write_table(TIMES, folder / "rows.parquet", coerce_timestamps=None, version="2.6")
    stored = SessionContext(SessionConfig(SETTINGS))
    stored.register_parquet("x", str(folder / "rows.parquet"), parquet_pruning=False)

    def compute(query: str, *, means: bool = True) -> list[Any]:
        given = stored.sql(query)
        made = as_sql_means(stored, given) if means else given
        return next(iter(made.to_pydict().values()))

    return compute


@pytest.mark.parametrize(
    ("condition", "right"),
    [
        ("t = u", [False, True, None]),
        ("t < u", [True, False, None]),
        ("u > t", [True, False, None]),
        ("u <> t", [True, False, None]),
        ("t is distinct from u", [True, False, True]),
        ("t < arrow_cast(n, 'Timestamp(Nanosecond, Some(\"UTC\"))')", [True, False, None]),
        ("s < t", [True, False, None]),
        ("u between t and t", [False, True, None]),
        ("t in (u)", [False, True, None]),
        ("case t when u then true else false end", [False, True, False]),
        (f"t = '{AT}456Z'", [False, False, None]),
        (f"t < '{AT}456Z'", [True, True, None]),
        (f"t <= '{AT}456Z'", [True, True, None]),
        (f"t >= '{AT}456Z'", [False, False, None]),
        (f"t > '{AT}456Z'", [False, False, None]),
        (f"t <> '{AT}456Z'", [True, True, None]),
        (f"'{AT}456Z' > t", [True, True, None]),
        (f"t = timestamp '{AT}456Z'", [False, False, None]),
        (f"t < timestamp '{AT}456'", [True, True, None]),
        (f"t = arrow_cast('{AT}456Z', 'Timestamp(us, \"UTC\")')", [False, False, None]),
        (f"t < arrow_cast('{AT}456Z', 'Timestamp(ns, \"UTC\")')", [True, True, None]),
        (f"t is distinct from '{AT}456Z'", [True, True, True]),
        (f"t is not distinct from '{AT}456Z'", [False, False, False]),
        (f"t in ('{AT}456Z', '1969-12-31T23:59:59Z')", [False, True, None]),
        (f"t not in ('{AT}456Z')", [True, True, None]),
        (f"t between '{AT}000001Z' and '{AT}9Z'", [False, False, None]),
        (f"t not between '{AT}000001Z' and '{AT}9Z'", [True, True, None]),
        ("t < '1969-12-31T23:59:59.0005Z'", [False, True, None]),
        ("t >= '1969-12-31T23:59:58.9999Z'", [True, True, None]),
        ("s = '2023-11-14T22:13:20.5Z'", [False, False, None]),
        ("s < '2023-11-14T22:13:20.5Z'", [True, True, None]),
        (f"t = '{AT}000Z'", [True, False, None]),
        (f"u = '{AT}456000Z'", [True, False, False]),
        (f"t = '{AT}Z'", [True, False, None]),
    ],
)
def test_times_are_compared_with_all_their_digits(
    times: Any, condition: str, right: list[bool | None]
) -> None:
    assert times(f"select {condition} as y from x") == right


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select a.s as y from x a join x b on a.t = b.u", [-1]),
        ("select a.s as y from x a join x b on b.u = a.t and a.s = b.s", [-1]),
        ("select count(*) as y from x a left join x b on a.u = b.t", [3]),
        (USING, [-1]),
        ("select b.s as y from x a, x b where a.u = b.t", [-1]),
        (f"select s as y from x where t >= '{AT}000001Z'", []),
        (
            f"select s as y from x group by s, t having max(t) < '{AT}000001Z' order by 1",
            [-1, SECOND],
        ),
        ("select s as y from x where exists (select 1 from x b where b.u = x.t)", [-1]),
        (CUT_BY_ITS_AUTHOR, [-1, SECOND]),
    ],
)
def test_times_of_two_units_are_joined_and_filtered_with_all_their_digits(
    times: Any, query: str, rows: list[int]
) -> None:
    def seconds(value: Any) -> Any:
        return value if isinstance(value, int) else round(value.timestamp())

    assert [seconds(each) for each in times(query)] == rows


@pytest.mark.parametrize("condition", ["t < now()", "t > '2020-01-01'", "t = s", f"t < '{AT}Z'"])
def test_plans_without_finer_digits_stay_as_they_are(times: Any, condition: str) -> None:
    query = f"select {condition} as y from x"
    assert times(query) == times(query, means=False)
