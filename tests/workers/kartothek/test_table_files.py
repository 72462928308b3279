"""Files of a table are read as one: in its columns, one file after the other."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from refusals import refusing

from odf_protocol.kartothek.source import file_list, state_of
from odf_protocol.metadata.sources import ReadStepParquet
from odf_workers.fetch.taken import FileLists
from odf_workers.readers.formats.parquet import values_size
from odf_workers.readers.formats.plain import PlainTables, TableFile, TablePart
from odf_workers.readers.formats.read import SplitRead, open_split, open_splits
from odf_workers.readers.formats.splits import Splits, splits_of_table
from odf_workers.slices.schema import Limits

SCHEMA = pa.schema({"p": pa.string(), "n": pa.int64(), "t": pa.string()})


def files(folder: Path, *tables: pa.Table) -> PlainTables:
    found = []
    for at, table in enumerate(tables):
        path = folder / f"{at}.parquet"
        pq.write_table(table, path)
        found.append(TableFile(path, TablePart(f"u/{at}", SCHEMA, {"p": pa.scalar(f"p{at}")})))
    return PlainTables(tuple(found))


def cut_of(table: PlainTables, width: int = 1) -> Splits:
    sizes = [values_size(each.path, Limits()) for each in table.files]
    return splits_of_table(table, sizes, width)


def rows(table: PlainTables) -> list[dict[str, object]]:
    read = SplitRead(step=ReadStepParquet(), limits=Limits())
    frame = open_splits(read, cut_of(table).splits, None)
    assert frame.schema.names == SCHEMA.names
    return pa.Table.from_batches(frame.batches, frame.schema).to_pylist()


def test_columns_are_those_of_the_table_and_values_of_the_key_win(tmp_path):
    table = files(
        tmp_path,
        pa.table({"t": ["a", None], "n": pa.array([1, 2], pa.int8()), "p": ["x", "y"]}),
        pa.table({"n": [3], "row": [0]}),
        pa.table({"t": pa.nulls(1), "n": pa.array([4], pa.uint8())}),
    )
    assert rows(table) == [
        {"p": "p0", "n": 1, "t": "a"},
        {"p": "p0", "n": 2, "t": None},
        {"p": "p1", "n": 3, "t": None},
        {"p": "p2", "n": 4, "t": None},
    ]


def test_a_large_file_is_cut_at_row_groups_where_several_are_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("odf_workers.readers.formats.splits.SMALLEST_SPLIT_BYTES", 1)
    table = files(tmp_path, pa.table({"n": [7]}), pa.table({"n": range(9), "t": ["x"] * 9}))
    pq.write_table(pa.table({"n": range(9), "t": ["x"] * 9}), table.files[1].path, row_group_size=2)
    cut = cut_of(table, 4).splits
    assert [(each.groups, each.rows) for each in cut[1:]] == [((0, 1), 0), ((2, 3), 4), ((4,), 8)]
    frame = open_splits(SplitRead(step=ReadStepParquet(), limits=Limits()), cut, None)
    read = pa.Table.from_batches(frame.batches, frame.schema).to_pylist()
    assert read == rows(table)
    assert [row["p"] for row in read] == ["p0"] + ["p1"] * 9


def test_what_is_wrong_in_a_part_of_a_file_names_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("odf_workers.readers.formats.splits.SMALLEST_SPLIT_BYTES", 1)
    table = files(tmp_path, pa.table({"n": pa.array([1, 2, 2**63], pa.uint64())}))
    pq.write_table(
        pa.table({"n": pa.array([1, 2, 2**63], pa.uint64())}), table.files[0].path, row_group_size=1
    )
    frame = open_splits(
        SplitRead(step=ReadStepParquet(), limits=Limits()), cut_of(table, 2).splits, None
    )
    with refusing("TypeConflict", match="u/0: column 'n' is no int64"):
        list(frame.batches)


def test_a_file_of_another_kind_is_named(tmp_path):
    good, bad = pa.table({"n": [1]}), pa.table({"n": ["1"]})
    with refusing("TypeConflict", match="u/1: column 'n': it holds text"):
        rows(files(tmp_path, good, bad))
    with refusing("TypeConflict", match="u/0: column 'n' is no int64"):
        rows(files(tmp_path, pa.table({"n": pa.array([2**63], pa.uint64())})))


def test_a_file_that_is_none_is_named(tmp_path):
    table = files(tmp_path, pa.table({"n": [1]}), pa.table({"n": [2]}))
    table.files[1].path.write_bytes(b"")
    with refusing("MalformedParquet", match="u/1: not a Parquet file"):
        rows(table)


def listed(name: str) -> str:
    return file_list("table", ["p"], [(name, f"u/{name}.parquet")], SCHEMA)


def test_a_state_changes_with_files_and_columns_and_nothing_else():
    pairs = [("a", "u/a.parquet"), ("b", "u/b.parquet")]
    first = state_of(file_list("table", ["p"], pairs, SCHEMA))
    assert first == state_of(file_list("table", ["p"], pairs[::-1], SCHEMA))
    others = [
        file_list("core", ["p"], pairs, SCHEMA),
        file_list("table", [], pairs, SCHEMA),
        file_list("table", ["p"], pairs[:1], SCHEMA),
        file_list("table", ["p"], [pairs[0], ("b", "u/c.parquet")], SCHEMA),
        file_list("table", ["p"], pairs, SCHEMA.remove(2)),
        file_list("table", ["p"], pairs, SCHEMA.set(1, pa.field("n", pa.uint64()))),
    ]
    assert len({first, *map(state_of, others)}) == 7
    assert first.startswith("kartothek/1:")


def test_lists_are_kept_as_far_as_there_is_room(tmp_path):
    size = len(listed("a"))
    lists = FileLists(tmp_path / "lists", 2 * size)
    for name in "abc":
        lists.keep(listed(name))
    assert lists.of(state_of(listed("c"))) == {("c", "u/c.parquet")}
    assert len(list(lists.folder.iterdir())) == 2
    for state in (None, "", "kartothek/1:../lists", "other"):
        assert lists.of(state) == frozenset()
    nothing = FileLists(tmp_path / "nothing", 0)
    nothing.keep(listed("a"))
    assert nothing.of(state_of(listed("a"))) == frozenset()


def test_small_files_are_one_split_and_large_ones_stand_between_them(tmp_path, monkeypatch):
    tables = [pa.table({"n": [at]}) for at in range(5)]
    tables[2] = pa.table({"n": range(200_000)})
    table = files(tmp_path, *tables)
    size = table.files[2].path.stat().st_size
    pq.write_table(tables[2], table.files[2].path, row_group_size=50_000)
    monkeypatch.setattr("odf_workers.readers.formats.splits.SMALLEST_SPLIT_BYTES", size // 2)
    cut = cut_of(table, 4).splits
    assert len(cut) == 4
    assert [[each.part.key for each in (split, *split.then)] for split in cut] == [
        ["u/0", "u/1"],
        ["u/2"],
        ["u/2"],
        ["u/3", "u/4"],
    ]
    read = SplitRead(step=ReadStepParquet(), limits=Limits())
    rows = pa.Table.from_batches(open_splits(read, cut, None).batches)
    assert rows.column("n").to_pylist() == [0, 1, *range(200_000), 3, 4]


def test_a_table_of_one_large_file_that_cannot_be_cut_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr("odf_workers.readers.formats.splits.SMALLEST_SPLIT_BYTES", 1)
    alone = cut_of(files(tmp_path, pa.table({"n": range(9)})), 4)
    assert (len(alone.splits), alone.whole_because) == (1, "it has one row group")
    several = cut_of(files(tmp_path, pa.table({"n": range(9)}), pa.table({"n": range(9)})), 4)
    assert (len(several.splits), several.whole_because) == (2, None)


def test_files_of_a_table_are_joined_by_the_size_of_their_values(tmp_path, monkeypatch):
    monkeypatch.setattr("odf_workers.readers.formats.splits.SMALLEST_SPLIT_BYTES", 50_000)
    table = files(tmp_path, *(pa.table({"n": [7] * 10_000}) for _ in range(3)))
    assert sum(each.path.stat().st_size for each in table.files) < 50_000
    assert len(cut_of(table, 4).splits) == 3


def test_what_is_wrong_in_one_of_many_small_files_names_that_file_once(tmp_path):
    table = files(tmp_path, *(pa.table({"n": [at]}) for at in range(9)))
    (split,) = cut_of(table, 4).splits
    table.files[7].path.write_bytes(b"no Parquet")
    read = SplitRead(step=ReadStepParquet(), limits=Limits())
    with refusing("MalformedParquet") as refused, open_split(read, split, None) as frame:
        list(frame.batches)
    assert refused.value.message.startswith("u/7: ")
    assert refused.value.message.count("u/") == 1
