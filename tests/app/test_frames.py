"""Frames of pandas have every whole number as it is stored, and frames and dictionaries become
tables with every value that they have."""

from __future__ import annotations

import math
import warnings
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing

from odf_node.public.frames import for_duckdb, for_polars, frame_of, relation_of
from odf_node.public.tables import parquet, table_of

BIG = 2**53 + 1


def test_whole_numbers_with_nulls_are_nullable_integers_and_are_not_rounded() -> None:
    columns = {
        "big": pa.array([BIG, None, BIG + 2]),
        "all": pa.array([BIG, 0, -BIG]),
        "most": pa.array([2**64 - 1, None, 0], pa.uint64()),
        "small": pa.array([None, 1, 2], pa.int8()),
        "share": pa.array([0.5, None, 1.5]),
        "name": pa.array(["a", None, "c"]),
    }
    frame = frame_of(pa.table(columns))
    kinds = {name: str(frame[name].dtype) for name in columns}
    assert kinds["big"] == "Int64"
    assert (kinds["all"], kinds["most"], kinds["small"]) == ("int64", "UInt64", "Int8")
    assert kinds["share"] == "float64"
    assert [int(value) for value in frame["big"].dropna()] == [
        BIG,
        BIG + 2,
    ]
    assert pa.Table.from_pandas(frame)["big"].to_pylist() == [BIG, None, BIG + 2]


def test_columns_of_one_name_keep_their_places() -> None:
    table = pa.Table.from_arrays([pa.array([1, None]), pa.array([None, BIG])], names=["n", "n"])
    frame = frame_of(table)
    assert frame.iloc[0, 0] == 1
    assert frame.iloc[1, 1] == BIG


NESTED = {
    "list": pa.array([[BIG, None], [1], None]),
    "struct": pa.array([{"x": BIG, "y": None}, {"x": None, "y": 1}, None]),
    "deep": pa.array([[{"x": [BIG, None]}], [], None]),
    "lists": pa.array([[[BIG, None], []], [None], None]),
    "fixed": pa.array([[BIG, None], [1, 2], None], pa.list_(pa.int64(), 2)),
    "map": pa.array([[("a", BIG), ("b", None)], [], None], pa.map_(pa.string(), pa.int64())),
    "bytes": pa.array([[1, None], None, []], pa.list_(pa.uint8())),
}


def plain(value: Any) -> Any:
    """The cell with lists of Python in place of arrays."""
    if isinstance(value, np.ndarray | list):
        return [plain(each) for each in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("name", NESTED)
def test_whole_numbers_in_nested_values_are_not_rounded_beside_nulls(name: str) -> None:
    frame = frame_of(pa.table({name: NESTED[name]}))
    assert list(map(plain, frame[name])) == NESTED[name].to_pylist()
    back = pa.array(frame[name], NESTED[name].type, from_pandas=True)
    assert back.to_pylist() == NESTED[name].to_pylist()


def test_nested_values_without_nulls_are_arrays_as_pandas_has_them() -> None:
    [cell] = frame_of(pa.table({"n": [[BIG, 1]]}))["n"]
    assert cell.dtype == "int64"


AWARE = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5)))


def test_dictionaries_have_the_columns_of_all_of_them() -> None:
    table = table_of([{"b": 1}, {"a": "x", "b": None}, {}, {"c": [1, 2]}])
    assert table.to_pydict() == {
        "b": [1, None, None, None],
        "a": [None, "x", None, None],
        "c": [None, None, None, [1, 2]],
    }


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([{"a": 1}, 5], "value 2 is a int, not a dictionary"),
        ([{"a": 1}, None], "value 2 is a NoneType"),
        ([{"a": 1, "o": 2**70}], "column 'o' has the whole number .* decimal.Decimal"),
        ([{"o": [{"x": -(2**64)}]}], "column 'o' has the whole number"),
        ([{"t": AWARE}, {"t": datetime(2026, 1, 1)}], "column 't' has times with and without a"),
        (pd.DataFrame({"t": [AWARE, datetime(2026, 1, 1)]}), "column 't' has times with and"),
        (pd.DataFrame({"o": [2**70, 1]}), "column 'o' has the whole number"),
        ([{1: "a", "1": "b"}], "two columns have the same name"),
    ],
)  # fmt: skip
def test_values_that_arrow_would_change_or_drop_are_refused_with_their_column(data, why):
    with refusing("NotATable", match=why):
        table_of(data)


def polars_of(kind: Any, *values: Any) -> pl.DataFrame:
    return pl.DataFrame({"k": [1] * len(values), "v": pl.Series(values, dtype=kind)})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (polars_of(pl.Object, object()), "column 'v' is of the type Object"),
        (polars_of(pl.Int128, 1), "column 'v' is of the type Int128 .* cast it"),
        (polars_of(pl.Int64, 1).lazy(), r"a LazyFrame .* `.collect\(\)`"),
        (pd.Series([1]), r"it is one column: give a frame"),
        ((each for each in [{"a": 1}]), "list"),
    ],
)
def test_what_is_no_table_says_what_makes_one(data: Any, why: str) -> None:
    with refusing("NotATable", match=why):
        table_of(data)


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["x", "y"])])
def test_categories_of_polars_are_texts(kind: Any) -> None:
    frame = polars_of(kind, "x", None, "y")
    table = table_of(pl.concat([frame, frame], rechunk=False))
    with parquet(table) as path:
        assert pq.read_table(path)["v"].to_pylist() == ["x", None, "y"] * 2


def test_a_column_that_no_parquet_file_holds_is_named() -> None:
    table = pa.table({"a": [1], "v": pa.array([{}], pa.struct([]))})
    with refusing("NotATable", match="column 'v' of the type struct<>"), parquet(table):
        pass


def test_missing_times_are_no_times_without_a_zone() -> None:
    frame = pd.DataFrame({"t": pd.Series([AWARE, pd.NaT, None], dtype=object)})
    assert table_of(frame)["t"].null_count == 2


WIDE = pa.array([[Decimal("1" * 39)]], pa.list_(pa.decimal256(39, 0)))


@pytest.mark.parametrize("to_frame", [for_polars, for_duckdb])
def test_decimals_that_a_library_has_not_are_refused_with_their_column(to_frame: Any) -> None:
    with refusing("UnknownToLibrary") as refused:
        to_frame(pa.table({"id": [1], "wide": WIDE}))
    assert refused.value.facts["columns"] == ["wide"]


def test_times_of_day_that_pandas_has_not_are_refused_with_their_column() -> None:
    clock = pa.time64("ns")
    table = pa.table({"fine": pa.array([1], clock), "whole": pa.array([1_000], clock)})
    with refusing("UnknownToLibrary") as refused:
        frame_of(table)
    assert refused.value.facts["columns"] == ["fine"]
    assert frame_of(table.select(["whole"]))["whole"].tolist() == [time(0, 0, 0, 1)]


def test_polars_has_instants_of_zones_that_are_an_offset_in_utc() -> None:
    pl = pytest.importorskip("polars")
    ticks = pa.array([-1, 2**63 - 1, None], pa.timestamp("ns", "+05:30"))
    table = pa.table({"at": ticks, "all": pa.array([[1], None, []], pa.list_(ticks.type))})
    frame = pl.from_arrow(for_polars(table))
    assert str(frame["at"].dtype) == "Datetime(time_unit='ns', time_zone='UTC')"
    assert frame["at"].to_arrow().cast(pa.int64()).to_pylist() == [-1, 2**63 - 1, None]


def test_duckdb_has_floats_of_16_bits_and_says_which_instants_it_cuts() -> None:
    duckdb = pytest.importorskip("duckdb")
    half = pa.array(np.array([0.1, -0.0, 65504], np.float16))
    table = pa.table(
        {
            "half": half,
            "halves": pa.array([[each] for each in half.to_pylist()], pa.list_(pa.float16())),
            "whole": pa.array([1_000, None, 0], pa.timestamp("ns", "UTC")),
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = duckdb.from_arrow(for_duckdb(table)).fetchall()
    assert [row[0] for row in rows] == [float(each) for each in half.to_pylist()]
    assert [row[1] for row in rows] == [[row[0]] for row in rows]
    cut = table.append_column("cut", pa.array([1, None, 0], pa.timestamp("ns", "Europe/Berlin")))
    with pytest.warns(UserWarning, match=r"in the columns cut; .arrow\(\) has all digits"):
        for_duckdb(cut)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_filters_of_duckdb_find_the_rows_that_they_find_in_its_own_tables(kind: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    values = [0.0, -0.0, 5.0, math.nan, math.inf, None]
    table = pa.table({"n": range(6), "x": pa.array(values, pa.float64()).cast(kind)})
    with duckdb.connect() as db:
        rows = relation_of(db, table)
        rows.create("own")
        own = db.table("own")
        for asked in ("x > 1", "x <= 'NaN'::FLOAT", "x IN (0.0, 7.0)", "NOT x > 1", "x <> 5"):
            found, wanted = (each.filter(asked).project("n").fetchall() for each in (rows, own))
            assert found == wanted, asked
        assert rows.filter("x > 1").project("n").fetchall() == [(2,), (3,), (4,)]
