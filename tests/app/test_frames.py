"""Frames of pandas have every whole number as it is stored."""

from __future__ import annotations

import pyarrow as pa

from odf_node.public.dataset import frame_of

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
