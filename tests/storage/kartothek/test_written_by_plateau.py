"""The reader against the real library: whatever frames it is given, our rows are the frames'."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kartothek_vectors import in_any_order
from plateau_peer import Plateau

from odf_protocol.kartothek.predicates import Op, Term
from odf_storage.datasets.kartothek.rows import whole_table
from odf_storage.datasets.kartothek.select import open_table, selected
from odf_storage.stores.keyed.folder import FolderKeyedStore

MOMENTS = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
COLUMNS: dict[str, tuple[Any, str]] = {
    "i": (st.integers(-(2**63), 2**63 - 1), "int64"),
    "u": (st.integers(0, 2**64 - 1), "uint64"),
    "s": (st.integers(-128, 127), "int8"),
    "f": (st.floats(allow_nan=False), "float64"),
    "t": (st.none() | TEXTS, "object"),
    "b": (st.booleans(), "bool"),
    "d": (st.none() | st.dates(date(1, 1, 1)), "object"),
    "m": (MOMENTS, "datetime64[us]"),
    "l": (st.lists(st.integers(-9, 9), min_size=1, max_size=3), "object"),
    "y": (st.none() | st.binary(max_size=5), "object"),
}
"""Values, and the type of their column in a frame."""
few = settings(
    max_examples=50,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # to shrink frames takes minutes
    suppress_health_check=[HealthCheck.too_slow],
)
rows = st.fixed_dictionaries({name: values for name, (values, _) in COLUMNS.items()})


def frame_of(some: list[dict[str, Any]], names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.Series([row[name] for row in some], dtype=COLUMNS[name][1]) for name in names}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@given(
    parts=st.lists(st.lists(rows, min_size=1, max_size=4), min_size=1, max_size=3),
    indexed=st.sets(st.sampled_from(["i", "f", "t", "b", "m"]), max_size=2),
    packed=st.booleans(),
)
@few
def test_whatever_it_writes_is_read_whole(tmp_path_factory, parts, indexed, packed):
    folder = tmp_path_factory.mktemp("plateau")
    names = list(COLUMNS)
    # It refuses an index over nulls alone.
    indexed = {
        name
        for name in indexed
        if all(any(row[name] is not None for row in some) for some in parts)
    }
    Plateau(folder).write(
        "u",
        [frame_of(some, names) for some in parts],
        secondary_indices=sorted(indexed),
        metadata_storage_format="msgpack" if packed else "json",
    )
    table = open_table(FolderKeyedStore(folder), "u")
    wanted = [row for some in parts for row in some]
    assert in_any_order(whole_table(table).to_pylist()) == in_any_order(wanted)
    for column in indexed:
        for value in {row[column] for row in wanted if row[column] is not None}:
            predicate = [[Term(column, Op.EQUAL, value)]]
            found = whole_table(table, predicate=predicate).to_pylist()
            assert in_any_order(found) == in_any_order(
                [row for row in wanted if row[column] == value]
            )
            here = sum(any(row[column] == value for row in some) for some in parts)
            # No index selects by floats, since bounds and lists of values leave NaN out.
            assert len(selected(table, predicate)) == (len(parts) if column == "f" else here)


@given(st.lists(st.tuples(TEXTS, st.integers(-5, 5), st.dates()), min_size=1, max_size=5))
@few
def test_whatever_it_partitions_on_is_read_whole(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("plateau")
    values = [(text.replace("/", "|"), number, day) for text, number, day in values]
    frame = pd.DataFrame(values, columns=["t", "n", "d"]).assign(x=range(len(values)))
    Plateau(folder).write("u", [frame], partition_on=["t", "n", "d"])
    table = open_table(FolderKeyedStore(folder), "u")
    assert table.partition_keys == ("t", "n", "d")
    found = whole_table(table)
    assert in_any_order(found.to_pylist()) == in_any_order(frame.to_dict("records"))
    assert found.schema.field("d").type == pa.date32()


def test_updates_and_what_they_leave_behind_are_read(folder):
    plateau = Plateau(folder)
    plateau.write(
        "u",
        [pd.DataFrame({"k": [1, 2], "g": ["a", "b"]})],
        partition_on=["g"],
        secondary_indices=["k"],
        metadata_storage_format="msgpack",
    )
    plateau.update("u", [pd.DataFrame({"k": [3], "g": ["b"]})], delete_scope=[{"g": "b"}])
    assert len(list(folder.glob("u.by-dataset-metadata*"))) == 2
    table = open_table(FolderKeyedStore(folder), "u")
    wanted = [{"k": 1, "g": "a"}, {"k": 3, "g": "b"}]
    assert in_any_order(whole_table(table).to_pylist()) == in_any_order(wanted)
    assert selected(table, [[Term("k", Op.EQUAL, 2)]]) == []
    plateau.update("u", [], delete_scope=[{"g": "a"}, {"g": "b"}])
    empty = open_table(FolderKeyedStore(folder), "u")
    assert (empty.partitions, empty.schema.names) == ((), ["g", "k"])


def test_a_column_of_nulls_only_gets_its_type_later(folder):
    plateau = Plateau(folder)
    plateau.write("u", [pd.DataFrame({"x": [1], "c": pd.Series([None], dtype=object)})])
    store = FolderKeyedStore(folder)
    assert pa.types.is_null(open_table(store, "u").schema.field("c").type)
    plateau.update("u", [pd.DataFrame({"x": [2], "c": ["text"]})])
    found = whole_table(open_table(store, "u"))
    assert found.schema.field("c").type == pa.string()
    wanted = [{"x": 1, "c": None}, {"x": 2, "c": "text"}]
    assert in_any_order(found.to_pylist()) == in_any_order(wanted)
