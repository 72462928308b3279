"""Random datasets both ways: ours reads what the real library wrote, it reads what we publish."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from datetime import date, datetime
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pytest
from kartothek_published import A, C, D, Growing, Publisher, R
from kartothek_random import (
    INDEXABLE,
    KINDS,
    NULLABLE,
    PARTITIONABLE,
    Row,
    for_plateau,
    frame_of,
    holds,
    is_reliable,
    predicate_of,
    some_value,
)
from kartothek_vectors import in_any_order
from plateau_peer import Plateau

from odf_protocol.kartothek.keys import MalformedPredicate
from odf_protocol.kartothek.predicates import Op, Term
from odf_storage.datasets.kartothek.definition import Mode, StateFormat
from odf_storage.datasets.kartothek.rows import whole_table
from odf_storage.datasets.kartothek.select import open_table
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.keyed.folder import FolderKeyedStore

SEEDS = range(4)
PREDICATES = 10
pytestmark = pytest.mark.filterwarnings("ignore:.*concatenation with empty:FutureWarning")


class Written:
    """A dataset of random columns that the library writes and changes, and its rows."""

    def __init__(self, chance: random.Random, peer: Plateau) -> None:
        self.chance, self.peer = chance, peer
        kinds = chance.sample(list(KINDS), chance.randint(2, 9))
        self.keys = [f"p{at}" for at in range(chance.randint(0, 3))]
        self.kinds = {f"c{at}_{kind}": kind for at, kind in enumerate(kinds)}
        free = [name for name, kind in self.kinds.items() if kind in INDEXABLE]
        self.indexed = sorted(chance.sample(free, min(len(free), chance.randint(0, 3))))
        self.kinds |= {name: chance.choice(PARTITIONABLE) for name in self.keys}
        self.kinds["n"] = "int64"
        self.rows: list[Row] = []

    def some(self, most: int) -> list[Row]:
        """Rows with a number each; it refuses an index over nulls alone, except of floats."""
        rows = []
        for _ in range(self.chance.randint(1, most)):
            row = {
                name: some_value(self.chance, kind, in_key=name in self.keys)
                for name, kind in self.kinds.items()
            }
            for name, kind in self.kinds.items():
                listed = name in self.indexed and not kind.startswith("float")
                may = kind in NULLABLE and name not in self.keys and not listed
                if may and self.chance.random() < 0.2:
                    row[name] = None
            row["n"] = len(self.rows) + len(rows)
            rows.append(row)
        return rows

    def write(self) -> None:
        parts = [self.some(8) for _ in range(self.chance.randint(1, 4))]
        self.peer.write(
            "u",
            [frame_of(rows, self.kinds) for rows in parts],
            partition_on=self.keys,
            secondary_indices=self.indexed,
            metadata_storage_format=self.chance.choice(["json", "msgpack"]),
        )
        self.rows = [row for rows in parts for row in rows]

    def change(self) -> None:
        """Adds, and drops whole partitions by their values."""
        scope, stay = [], self.rows
        if self.keys and self.chance.random() < 0.7:
            name = self.chance.choice(self.keys)
            gone = self.chance.choice(self.rows)[name] if self.rows else None
            if gone is not None:
                scope, stay = [{name: gone}], [row for row in self.rows if row[name] != gone]
        added = self.some(5) if self.chance.random() < 0.7 else []
        frames = [frame_of(added, self.kinds)] if added else []
        if frames or scope:
            self.peer.update(
                "u",
                frames,
                delete_scope=scope,
                partition_on=self.keys,
                secondary_indices=self.indexed,
            )
            self.rows = [*stay, *added]


def plain(rows: list[Row]) -> list[str]:
    return in_any_order([{name: _plain(value) for name, value in row.items()} for row in rows])


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # of numpy
        value = value.tolist()
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    return 0.0 if isinstance(value, float) and value == 0 else value


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_library_writes_is_read_as_the_library_reads_it(tmp_path, seed):
    chance = random.Random(seed)
    written = Written(chance, Plateau(tmp_path))
    written.write()
    for _ in range(3):
        table = open_table(FolderKeyedStore(tmp_path), "u")
        found = whole_table(table)
        assert plain(found.to_pylist()) == plain(written.rows)
        if "bool" not in [written.kinds[name] for name in written.keys]:
            assert plain(written.peer.read("u")) == plain(written.rows) or not written.rows
        for _ in range(PREDICATES):
            predicate = predicate_of(chance, written.kinds, written.rows)
            wanted = plain([row for row in written.rows if holds(predicate, row)])
            assert plain(whole_table(table, predicate=predicate).to_pylist()) == wanted, predicate
            if is_reliable(predicate, written.kinds, written.rows, written.indexed):
                got = written.peer.read("u", for_plateau(predicate), columns=["n"])
                numbers = sorted(row["n"] for row in got)
                assert numbers == sorted(r["n"] for r in written.rows if holds(predicate, r)), (
                    predicate
                )
        written.change()


class Various(Growing):
    """A dataset of rows with columns of many types."""

    KINDS: ClassVar[dict[str, str]] = {
        "offset": "int64", "op": "int32", "key": "int16", "big": "uint64", "single": "float32",
        "double": "float64", "flag": "bool", "day": "date", "city": "text", "note": "text",
    }  # fmt: skip
    TYPES: ClassVar[dict[str, pa.DataType]] = {
        "key": pa.int16(), "big": pa.uint64(), "single": pa.float32(), "double": pa.float64(),
        "flag": pa.bool_(), "day": pa.date32(), "city": pa.string(), "note": pa.string(),
    }  # fmt: skip

    def table(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        base = super().table([(op, None, None) for op, _ in rows]).drop_columns(["city", "pop"])
        for name, its in self.TYPES.items():
            base = base.append_column(name, pa.array([row[name] for _, row in rows], its))
        return base


def some_block(chance: random.Random, standing: dict[int, Row]) -> list[tuple[int, Row]]:
    """Rows of a commit, after which `standing` is the state by key."""
    rows: list[tuple[int, Row]] = []
    for key in chance.sample(range(-4, 4), chance.randint(1, 5)):
        made = {
            name: some_value(chance, Various.KINDS[name], in_key=name in ("city", "day", "flag"))
            for name in Various.TYPES
        } | {"key": key}
        for name in ("note", "double"):
            made[name] = None if chance.random() < 0.2 else made[name]
        made["double"] = float("nan") if chance.random() < 0.1 else made["double"]
        if key not in standing:
            rows.append((A, made))
            standing[key] = made
        elif chance.random() < 0.4:
            rows.append((R, standing.pop(key)))
        else:
            rows += [(C, standing[key]), (D, made)]
            standing[key] = made
    return rows


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", list(Mode))
def test_what_is_published_is_read_by_the_library_as_ours_reads_it(tmp_path, store, mode, seed):
    chance = random.Random(seed)
    keys = tuple(chance.sample(["key", "flag", "day", "city", "big"], chance.randint(0, 2)))
    free = [name for name in Various.KINDS if name not in keys]
    config = {
        "mode": mode,
        "partition_on": keys,
        "secondary_indices": tuple(chance.sample(free, 3)),
        "primary_key": chance.choice([None, ("key",)]) if mode is Mode.STATE else None,
        "state_format": chance.choice(list(StateFormat)),
    }
    with closing(open_stores(StoreSettings(data=tmp_path / "node", durable=False))) as stores:
        made, peer = Various(stores), Plateau(store.root)
        publish = Publisher(made, store, tmp_path, **config)
        standing, every = dict[int, Row](), list[Row]()
        for _ in range(4):
            block = some_block(chance, standing)
            every += [{"op": op, **row} for op, row in block]
            made.add(block)
            if chance.random() < 0.6:
                publish()
        publish()
    table = open_table(store, "u")
    rows = whole_table(table).to_pylist()
    wanted = list(standing.values()) if mode is Mode.STATE else every
    names = [*Various.TYPES, *(["op"] if mode is Mode.CHANGELOG else [])]
    assert plain([{name: row[name] for name in names} for row in rows]) == plain(wanted)
    shown = [name for name in Various.KINDS if name not in keys or name != "flag"]
    theirs = [{name: row[name] for name in shown} for row in peer.read("u")]
    assert plain(theirs) == plain([{name: row[name] for name in shown} for row in rows])
    for _ in range(PREDICATES):
        predicate = predicate_of(chance, Various.KINDS, rows)
        offsets = sorted(row["offset"] for row in rows if holds(predicate, row))
        ours = whole_table(table, columns=["offset"], predicate=predicate)["offset"].to_pylist()
        assert sorted(ours) == offsets, predicate
        if is_reliable(predicate, Various.KINDS, rows, config["secondary_indices"]):
            got = peer.read("u", for_plateau(predicate), columns=["offset"])
            assert sorted(row["offset"] for row in got) == offsets, predicate


def test_a_column_without_a_value_so_far_is_compared_with_values(tmp_path):
    peer = Plateau(tmp_path)
    peer.write("u", [pd.DataFrame({"x": [1], "c": pd.Series([None], dtype=object)})])
    table = open_table(FolderKeyedStore(tmp_path), "u")
    for value in ("text", 1, 0.5, True, date(2024, 1, 1), datetime(2024, 1, 1)):
        for op, asked, rows in (
            (Op.EQUAL, value, 0),
            (Op.NOT_EQUAL, value, 0),
            (Op.LESS_EQUAL, value, 0),
            (Op.IN, [value], 0),
            (Op.NOT_IN, [value], 0),
            (Op.DISTINCT, value, 1),
        ):
            found = whole_table(table, predicate=[[Term("c", op, asked)]])
            assert found.num_rows == rows, (op, value)
    assert peer.read("u", [[("c", "==", "text")]]) == []
    with pytest.raises(MalformedPredicate):
        whole_table(table, predicate=[[Term("c", Op.EQUAL, None)]])


@pytest.mark.parametrize("text", ["a/b", "/", "x=/y=1", "b/c=d"])
def test_a_text_that_the_library_tears_apart_is_read_as_it_reads_it(tmp_path, text):
    peer = Plateau(tmp_path)
    peer.write("u", [pd.DataFrame({"x": [1], "p": [text]})], partition_on=["p"])
    found = whole_table(open_table(FolderKeyedStore(tmp_path), "u"))
    assert found.to_pylist() == peer.read("u") == [{"p": text.partition("/")[0], "x": 1}]
