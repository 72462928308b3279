"""Tables of Kartothek datasets: all that the library wrote is read, anything else is refused."""

from __future__ import annotations

import json
import shutil
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from kartothek_made import Made, parquet
from kartothek_vectors import KARTOTHEK, expectations, in_any_order
from refusals import refusing

from odf_protocol.kartothek import keys as errors
from odf_protocol.kartothek.predicates import Op, Term
from odf_storage.datasets.kartothek.rows import rows_of, whole_table
from odf_storage.datasets.kartothek.select import open_table, selected
from odf_storage.stores.keyed.folder import FolderKeyedStore

EXPECTED = list(expectations())


def vector_store(name: str) -> FolderKeyedStore:
    return FolderKeyedStore(KARTOTHEK / name)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "store")


def read(made: Made, **more) -> pa.Table:
    return whole_table(open_table(made.write_state(**more), made.uuid))


@pytest.mark.parametrize("wanted", EXPECTED, ids=lambda each: f"{each['uuid']}.{each['table']}")
def test_every_dataset_of_the_library_is_read_whole(wanted):
    table = open_table(vector_store(wanted["store"]), wanted["uuid"], wanted["table"])
    rows = whole_table(table)
    assert in_any_order(rows.to_pylist()) == in_any_order(wanted["rows"])
    assert list(table.partition_keys) == wanted["partition_keys"]
    assert sorted(table.found.state.indices) == sorted(wanted["secondary_indices"])
    assert len(table.partitions) == wanted["partitions"]


def test_every_step_of_a_dataset_that_changes_is_read_whole():
    wanted = json.loads((KARTOTHEK / "expected/inventory-steps.json").read_text())
    assert sorted(wanted["states"]) == ["1", "2", "3", "4"]
    for number, rows in wanted["states"].items():
        table = open_table(vector_store(f"steps/{number}"), "inventory")
        assert in_any_order(whole_table(table).to_pylist()) == in_any_order(rows)


def test_types_are_those_of_the_schema_file():
    rows = whole_table(open_table(vector_store("basic"), "hive"))
    assert rows.schema.field("day").type == pa.date32()
    assert rows.schema.field("country").type == pa.string()
    rows = whole_table(open_table(vector_store("quirks"), "boolpart"))
    assert rows.schema.field("ok").type == pa.bool_()
    assert open_table(vector_store("basic"), "emptied").schema.names == ["g", "k", "v"]


def test_of_several_tables_one_has_to_be_named():
    with refusing("TableNotChosen", match="core, helper"):
        open_table(vector_store("legacy"), "twotables")
    with refusing("TableNotChosen", match="not table"):
        open_table(vector_store("legacy"), "twotables", "table")


@pytest.mark.parametrize(
    ("term", "found"),
    [
        (Term("c", Op.IS_NULL), [3, 4, 6]),
        (Term("c", Op.DISTINCT, "q"), [3, 4, 5, 6]),
        (Term("c", Op.NOT_EQUAL, "q"), [5]),
        (Term("c", Op.EQUAL, "q"), [1, 2]),
        (Term("c", Op.EQUAL, "zzz"), []),
    ],
)
def test_what_is_not_in_an_index_is_not_lost(term, found):
    table = open_table(vector_store("quirks"), "nullidx")
    rows = whole_table(table, columns=["x"], predicate=[[term]])
    assert sorted(rows["x"].to_pylist()) == found


def test_an_index_leaves_out_files(made):
    table = open_table(vector_store("quirks"), "nullidx")
    by_index = selected(table, [[Term("c", Op.EQUAL, "r")]])
    assert len(by_index) == 1
    assert selected(table, [[Term("c", Op.EQUAL, "zzz")]]) == []
    assert len(selected(table, [[Term("c", Op.IS_NULL)]])) == 3


def test_partition_columns_and_indices_are_joined_by_and_and_or():
    table = open_table(vector_store("basic"), "hive")
    germany, may = Term("country", Op.EQUAL, "DE"), Term("day", Op.GREATER, date(2024, 3, 1))
    assert [len(selected(table, some)) for some in ([[germany]], [[may]])] == [2, 3]
    assert len(selected(table, [[germany, may]])) == 1
    assert len(selected(table, [[germany], [may]])) == 4
    rows = whole_table(table, predicate=[[germany, may]]).to_pylist()
    assert {(row["country"], row["day"]) for row in rows} == {("DE", date(2024, 3, 2))}


def test_rows_are_the_same_with_and_without_indices(made):
    table = open_table(vector_store("basic"), "flat")
    predicates = [
        [[Term("name", Op.EQUAL, "beta")]],
        [[Term("id", Op.GREATER, 4)], [Term("ratio", Op.LESS, 1.0)]],
        [[Term("day", Op.IN, [date(2024, 1, 2)]), Term("flag", Op.EQUAL, True)]],
        [[Term("seen_at", Op.LESS_EQUAL, datetime(2024, 1, 1))]],
        [[Term("grade", Op.NOT_EQUAL, "A")]],
    ]
    shutil.copytree(KARTOTHEK / "basic", made.store.root)
    shutil.rmtree(made.store.root / "flat/indices")
    without = open_table(made.store, "flat")
    for predicate in predicates:
        rows = whole_table(table, predicate=predicate).to_pylist()
        assert rows
        assert rows == whole_table(without, predicate=predicate).to_pylist()


# --- columns --------------------------------------------------------------------------------


def test_columns_are_cast_dropped_and_filled_up(made):
    made.schema(
        {
            "a": pa.int64(),
            "b": pa.float64(),
            "c": pa.large_string(),
            "d": pa.list_(pa.int64()),
            "e": pa.timestamp("us"),
            "f": pa.decimal128(9, 3),
            "g": pa.bool_(),
        }
    )
    made.file(
        "p",
        {
            "__index_level_0__": [0],
            "f": pa.array([Decimal("1.5")], pa.decimal128(4, 2)),
            "e": pa.array([datetime(2024, 1, 1)], pa.timestamp("ms")),
            "d": pa.array([[None]], pa.list_(pa.null())),
            "c": pa.array(["x"]).dictionary_encode(),
            "b": pa.array([1.5], pa.float32()),
            "a": pa.array([7], pa.int8()),
        },
    )
    made.file("q", {"a": pa.nulls(1), "c": pa.array(["y"], pa.large_string())})
    made.file("r", {"unknown": [1, 2]})
    first = {"a": 7, "b": 1.5, "c": "x", "d": [None], "e": datetime(2024, 1, 1)}
    nothing = dict.fromkeys("abcdefg")
    assert read(made).to_pylist() == [
        {**first, "f": Decimal("1.500"), "g": None},
        {**nothing, "c": "y"},
        nothing,
        nothing,
    ]


@pytest.mark.parametrize(
    ("wanted", "values"),
    [
        (pa.int64(), pa.array(["1"])),
        (pa.int64(), pa.array([1.0])),
        (pa.float64(), pa.array([1])),
        (pa.string(), pa.array([b"x"])),
        (pa.bool_(), pa.array([1])),
        (pa.date32(), pa.array([datetime(2024, 1, 1)])),
        (pa.timestamp("us"), pa.array([datetime(2024, 1, 1)], pa.timestamp("us", "UTC"))),
        (pa.list_(pa.int64()), pa.array([["a"]])),
        (pa.struct([("a", pa.int64())]), pa.array([{"a": "x"}])),
        (pa.null(), pa.array([1])),
        (pa.int8(), pa.array([1000])),
        (pa.uint64(), pa.array([-1])),
    ],
    ids=str,
)
def test_a_column_of_another_kind_is_refused_with_its_file(made, wanted, values):
    made.schema({"c": wanted}).file("good", {"c": pa.nulls(1)}).file("bad", {"c": values})
    with refusing("TypeConflict", match="column 'c'") as refused:
        read(made)
    assert refused.value.key == "u/table/bad.parquet"


def test_what_the_key_says_of_a_partition_column_wins(made):
    made.schema({"p": pa.int64(), "x": pa.int64()}).file("p=7/f", {"p": [1], "x": [2]})
    assert read(made).to_pylist() == [{"p": 7, "x": 2}]


def test_files_may_be_anywhere_in_the_store(made):
    made.schema({"p": pa.string(), "x": pa.int64()})
    made.store.put("other/place/deep/p=a%2Fb/f.parquet", [parquet({"x": [1]})])
    made.partition("any label", "other/place/deep/p=a%2Fb/f.parquet")
    assert read(made).to_pylist() == [{"p": "a/b", "x": 1}]


def test_unknown_columns_are_refused_at_once(made):
    made.schema({"x": pa.int64()})
    table = open_table(made.write_state(), "u")
    with refusing("UnknownKartothekColumn", match="'y'"):
        rows_of(table, columns=["y"])
    with pytest.raises(errors.MalformedPredicate, match="'y'"):
        rows_of(table, predicate=[[Term("y", Op.IS_NULL)]])


# --- partitions that the state does not list ------------------------------------------------


def test_partitions_are_found_by_listing_where_the_state_names_none(made):
    made.schema({"p": pa.int64(), "x": pa.int64()})
    made.file("p=1/a", {"x": [1]}).file("p=2/b", {"x": [2]})
    made.store.put("u/indices/x/1.by-dataset-index.parquet", [b"no data"])
    made.store.put("uv/table/c.parquet", [b"another dataset"])
    rows = read(made, partitions="-", partition_keys=["p"])
    assert sorted(rows.to_pylist(), key=str) == [{"p": 1, "x": 1}, {"p": 2, "x": 2}]
    table = open_table(made.store, "u")
    assert sorted(each.label for each in table.partitions) == ["p=1/a", "p=2/b"]


def test_a_listed_file_that_is_no_parquet_is_refused(made):
    made.schema({"x": pa.int64()}).file("a", {"x": [1]})
    made.store.put("u/table/b.csv", [b"x\n1\n"])
    with refusing("NotParquet", match=r"u/table/b\.csv"):
        read(made, partitions="-")


def test_listed_tables_have_the_same_partitions(made):
    made.schema({"x": pa.int64()}).file("a", {"x": [1]})
    made.file("a", {"x": [1]}, "other").file("b", {"x": [1]}, "other")
    with refusing("MalformedState", match="'b' has no file in table"):
        read(made, partitions="-")


def test_a_table_without_partitions_is_found_by_its_schema_file(made):
    made.schema({"x": pa.int64()}, "core")
    assert read(made).schema.names == ["x"]
    made.schema({"x": pa.int64()}, "more")
    with refusing("TableNotChosen", match="core, more"):
        read(made)


# --- refusals -------------------------------------------------------------------------------


def test_a_dataset_that_is_not_there_is_said_to_be_missing(made):
    with pytest.raises(errors.NoKartothek, match="'u'"):
        open_table(made.store, "u")


def test_a_schema_file_that_is_missing_is_named(made):
    made.file("a", {"x": [1]})
    with pytest.raises(errors.KartothekFileMissing, match="u/table/_common_metadata"):
        read(made)


def test_a_data_file_that_is_missing_is_named(made):
    made.schema({"x": pa.int64()}).file("a", {"x": [1]}).partition("b", "u/table/b.parquet")
    with pytest.raises(errors.KartothekFileMissing, match=r"u/table/b\.parquet"):
        read(made)


@pytest.mark.parametrize("raw", [b"", b"PAR1PAR1", b"x" * 50, parquet({"x": [1]})[:-9]])
def test_a_data_file_that_is_damaged_is_named(made, raw):
    made.schema({"x": pa.int64()}).partition("b", "u/table/b.parquet")
    made.store.put("u/table/b.parquet", [raw])
    with refusing("UnreadableDataFile", match=r"u/table/b\.parquet"):
        read(made)


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("q=1/b", "partition columns"),
        ("b", "partition columns"),
        ("p=1/q=1/b", "partition columns"),
        ("p=x/b", "is no int64"),
        ("p=/b", "is no int64"),
    ],
)
def test_partition_columns_that_differ_are_refused_with_the_file(made, label, reason):
    made.schema({"p": pa.int64(), "x": pa.int64(), "q": pa.int64()})
    made.file("p=1/a", {"x": [1]}).file(label, {"x": [1]})
    with pytest.raises(errors.MalformedPartition, match=reason) as refused:
        read(made)
    assert refused.value.key == f"u/table/{label}.parquet"


def test_declared_partition_columns_are_those_of_the_files(made):
    made.schema({"p": pa.int64(), "x": pa.int64()}).file("a", {"x": [1]})
    with pytest.raises(errors.MalformedPartition):
        read(made, partition_keys=["p"])


def test_a_partition_column_is_in_the_schema_file(made):
    made.schema({"x": pa.int64()}).file("p=1/a", {"x": [1]})
    with pytest.raises(errors.MalformedPartition, match="no column 'p'"):
        read(made)


# --- indices that cannot be used ------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        {"x": [1], "partition": [["gone"]]},
        {"x": [1, None], "partition": [["a"], ["b"]]},
        {"x": ["1"], "partition": [["a"]]},
        {"y": [1], "partition": [["a"]]},
        {"x": [1], "partition": ["a"]},
    ],
)
def test_an_index_that_cannot_be_used_costs_time_and_loses_nothing(made, rows):
    made.schema({"x": pa.int64()}).file("a", {"x": [1]}).file("b", {"x": [1, 2]})
    made.index("x", rows)
    table = open_table(made.write_state(), "u")
    assert len(selected(table, [[Term("x", Op.EQUAL, 1)]])) == 2
    assert whole_table(table, predicate=[[Term("x", Op.EQUAL, 1)]])["x"].to_pylist() == [1, 1]


@pytest.mark.parametrize("raw", [None, b"", b"PAR1", parquet({"x": [1]})[:-20]])
def test_a_missing_or_damaged_index_loses_nothing(made, raw):
    made.schema({"x": pa.int64()}).file("a", {"x": [1]}).file("b", {"x": [2]})
    made.index("x", {"x": [1, 2], "partition": [["a"], ["b"]]})
    key = made.state["indices"]["x"]
    assert len(selected(open_table(made.write_state(), "u"), [[Term("x", Op.EQUAL, 1)]])) == 1
    made.store.delete([key])
    if raw is not None:
        made.store.put(key, [raw])
    table = open_table(made.store, "u")
    assert len(selected(table, [[Term("x", Op.EQUAL, 1)]])) == 2


def test_an_index_in_the_state_is_used(made):
    made.schema({"x": pa.int64()}).file("a", {"x": [1]}).file("b", {"x": [2]})
    made.write_state(indices={"x": {"1": ["a"], "2": ["b"]}})
    table = open_table(made.store, "u")
    assert [each.label for each in selected(table, [[Term("x", Op.GREATER, 1)]])] == ["b"]
