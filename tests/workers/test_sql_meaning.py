"""What SQL means on DataFusion: whole numbers do not wrap around, -0.0 is 0.0, NaN is one value."""

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
