"""Merge states: equal to what the slices say, cheap to bring up to date, never trusted blindly."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.workers.datasets import created, now
from throwaway import throwaway_stores

from odf_protocol.chain.rules import author
from odf_protocol.metadata.events import AddData, DataSlice, OffsetInterval, SetInfo
from odf_protocol.multihash import ARROW0_SHA3_256, Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.merge_state import build, state
from odf_storage.datasets.merge_state.comparable import NotHashable, key_hashes
from odf_storage.datasets.merge_state.state import (
    Candidates,
    MergeState,
    StateManifest,
    StateSpec,
    to_merge,
)
from odf_storage.datasets.merge_state.store import MergeStates, _locked
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

COLUMNS = [("offset", pa.int64()), ("op", pa.int32()), ("city", pa.string()), ("n", pa.int64())]
SCHEMA = pa.schema(COLUMNS)
SPEC = StateSpec(
    key=("city",),
    columns=tuple((name, str(kind)) for name, kind in COLUMNS),
    operation="op",
)
LOGICAL = Multihash(ARROW0_SHA3_256, bytes(32))


class Ledger:
    """A dataset whose slices are written by hand, and the files they are."""

    def __init__(self, stores: Stores, folder: Path) -> None:
        self.dataset: Dataset = created(stores)
        self.stores, self.folder = stores, folder
        self.rows: list[dict[str, Any]] = []
        self.asked: list[str] = []
        folder.mkdir(exist_ok=True)

    def add(self, rows: list[tuple[int, str | None, int]]) -> None:
        start = len(self.rows)
        made = [
            {"offset": start + at, "op": op, "city": city, "n": n}
            for at, (op, city, n) in enumerate(rows)
        ]
        path = self.folder / "slice.parquet"
        pq.write_table(pa.Table.from_pylist(made, SCHEMA), path)
        raw = path.read_bytes()
        data = DataSlice(
            logical_hash=LOGICAL,
            physical_hash=Multihash.of(raw),
            offset_interval=OffsetInterval(start=start, end=start + len(rows) - 1),
            size=len(raw),
        )
        path.rename(self.folder / str(data.physical_hash))
        key = ObjectKey(self.dataset.id, ObjectKind.DATA, data.physical_hash)
        self.stores.objects.put(key, [raw])
        self.append(AddData(prev_offset=start - 1 if start else None, new_data=data))
        self.rows += made

    def append(self, event: Any) -> None:
        blocks, _ = author(self.dataset.state(), [event], system_time=now())
        self.dataset.commit(blocks, expected=self.dataset.head())

    def local(self, data: DataSlice) -> Path:
        self.asked.append(str(data.physical_hash))
        return self.folder / str(data.physical_hash)

    def at(self, states: MergeStates, spec: StateSpec = SPEC) -> MergeState:
        schema = pa.schema([SCHEMA.field(name) for name in spec.names])
        return states.at(self.dataset, self.dataset.head(), spec, schema, self.local)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    stores = throwaway_stores()
    made = Ledger(stores, tmp_path / "slices")
    from odf_protocol.columns.arrow_schema import from_arrow
    from odf_protocol.metadata.events import SetDataSchema

    millis = pa.timestamp("ms", "UTC")
    system = [("offset", pa.int64()), ("op", pa.int32()), ("system_time", millis)]
    fields = [pa.field(*each, nullable=False) for each in [*system, ("event_time", millis)]]
    fields += [pa.field("city", pa.string()), pa.field("n", pa.int64())]
    made.append(SetDataSchema(schema=from_arrow(pa.schema(fields))))
    return made


@pytest.fixture
def states(tmp_path: Path) -> MergeStates:
    return MergeStates(tmp_path / "merge-state", max_bytes=1 << 30)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (state, build):
        monkeypatch.setattr(module, "SEGMENT_ROWS", 16)


def newest(kept: MergeState, cities: list[str | None]) -> dict[str | None, dict[str, Any]]:
    """What a look-up says of each city, as a merge would read it."""
    found: Candidates = kept.find(key_hashes([pa.array(cities, pa.string())]))
    rows = kept.take(found, SCHEMA.names).to_pylist()
    said: dict[str | None, dict[str, Any]] = {}
    for asked, row in zip(found.asked.tolist(), rows, strict=True):
        if row["city"] == cities[asked]:
            said[row["city"]] = row
    return {city: row for city, row in said.items() if row["op"] != 1}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("seed", range(5))
def test_a_look_up_gives_the_rows_that_stand(
    seed: int, ledger: Ledger, states: MergeStates
) -> None:
    chance = random.Random(seed)
    cities = [None, "", *[f"c{n}" for n in range(60)], "x" * 500]
    for _ in range(12):
        ledger.add(
            [
                (chance.choice([0, 0, 1, 2, 3]), chance.choice(cities), chance.randrange(9))
                for _ in range(chance.randrange(1, 60))
            ]
        )
        kept = ledger.at(states)
        stands = {row["city"]: row for row in ledger.rows}
        wanted = {city: row for city, row in stands.items() if row["op"] != 1}
        assert newest(kept, [*cities, "elsewhere"]) == wanted
    assert len(kept.segments) < 20
    assert kept.rows < 4 * len(cities)


def test_only_new_slices_are_read(ledger: Ledger, states: MergeStates) -> None:
    ledger.add([(0, "a", 1)])
    ledger.at(states)
    ledger.add([(0, "b", 1)])
    ledger.append(SetInfo(description="no rows"))
    ledger.asked.clear()
    assert newest(ledger.at(states), ["a", "b"]).keys() == {"a", "b"}
    assert len(ledger.asked) == 1
    ledger.at(states)
    assert len(ledger.asked) == 1


def garble(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("pattern", "harm"),
    [
        ("*.arrow", garble),
        ("*.arrow", Path.unlink),
        ("state.json", garble),
        ("state.json", lambda path: path.write_bytes(b"")),
    ],
    ids=["rows changed", "rows gone", "list changed", "list empty"],
)
def test_a_damaged_state_is_made_anew(
    pattern: str, harm: Callable[[Path], Any], ledger: Ledger, states: MergeStates
) -> None:
    ledger.add([(0, "a", 1), (0, "b", 2)])
    ledger.at(states)
    (folder,) = states.folders(ledger.dataset.id)
    for path in folder.glob(pattern):
        harm(path)
    ledger.asked.clear()
    again = MergeStates(states.folder, max_bytes=states.max_bytes)
    assert newest(ledger.at(again), ["a", "b"]).keys() == {"a", "b"}
    assert len(ledger.asked) == 1


def test_a_state_of_another_history_is_made_anew(ledger: Ledger, states: MergeStates) -> None:
    ledger.add([(0, "a", 1)])
    base = ledger.dataset.head()
    ledger.add([(0, "b", 1)])
    ledger.at(states)
    ledger.rows.pop()
    blocks, _ = author(ledger.dataset.state(base), [SetInfo(description="x")], system_time=now())
    ledger.dataset.commit(blocks, expected=ledger.dataset.head(), force=True)
    ledger.add([(0, "c", 1)])
    assert newest(ledger.at(states), ["a", "b", "c"]).keys() == {"a", "c"}


def test_what_broke_off_leaves_no_files_for_long(ledger: Ledger, states: MergeStates) -> None:
    ledger.add([(0, "a", 1)])
    ledger.at(states)
    (folder,) = states.folders()
    (folder / "deadbeef.arrow").write_bytes(b"half")
    ledger.add([(0, "b", 1)])
    ledger.at(states)
    assert not (folder / "deadbeef.arrow").exists()


def test_a_ledger_remembers_keys_that_were_retracted(ledger: Ledger, states: MergeStates) -> None:
    spec = StateSpec(key=("city",), columns=(("city", "string"),), operation=None)
    ledger.add([(0, "a", 1), (1, "a", 1)])
    assert ledger.at(states, spec).rows == 1
    assert ledger.at(states).rows == 0, "rows that are gone need not be kept"


def test_states_of_a_dataset_may_go_while_others_are_listed(
    ledger: Ledger, states: MergeStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.add([(0, "a", 1)])
    ledger.at(states)
    (kept,) = states.folders()
    going = states.folder / "going"
    going.mkdir()
    for name in ("listdir", "scandir"):
        real = getattr(os, name)

        def dropped_meanwhile(folder: Any, real: Any = real) -> Any:
            if Path(folder) == going and going.exists():
                going.rmdir()
            return real(folder)

        monkeypatch.setattr(os, name, dropped_meanwhile)
    assert states.folders() == [kept]
    assert not going.exists()


def test_the_least_used_states_go_first(ledger: Ledger, states: MergeStates) -> None:
    ledger.add([(0, "a", 1)])
    other = StateSpec(key=("n",), columns=SPEC.columns, operation="op")
    ledger.at(states)
    (first,) = states.folders()
    ledger.at(states, other)
    states.max_bytes = 3 * sum(path.stat().st_size for path in first.iterdir()) // 2
    ledger.at(states)
    assert states.folders() == [first]
    states.max_bytes = 1
    assert newest(ledger.at(states), ["a"])
    assert states.folders() == []


def test_a_state_that_is_being_changed_stays_when_others_make_room(
    ledger: Ledger, states: MergeStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.add([(0, "a", 1)])
    ledger.at(states)
    ledger.add([(0, "b", 1)])
    full, local = MergeStates(states.folder, max_bytes=1), ledger.local

    def trimmed(data: DataSlice) -> Path:
        assert full.trim() == []
        return local(data)

    monkeypatch.setattr(ledger, "local", trimmed)
    assert newest(ledger.at(states), ["a", "b"]).keys() == {"a", "b"}
    assert len(full.trim()) == 1


def test_a_change_that_waits_for_a_removal_begins_anew(ledger: Ledger, states: MergeStates) -> None:
    ledger.add([(0, "a", 1)])
    ledger.at(states)
    (folder,) = states.folders()
    with ThreadPoolExecutor(1) as pool:
        with _locked(folder):
            waiting = pool.submit(ledger.at, states)
            sleep(0.1)
            shutil.rmtree(folder)
        assert newest(waiting.result(90), ["a"]).keys() == {"a"}


def test_states_of_datasets_that_are_gone_are_swept(ledger: Ledger, states: MergeStates) -> None:
    ledger.add([(0, "a", 1)])
    ledger.at(states)
    assert states.sweep(lambda _: True) == []
    assert len(states.sweep(lambda _: False, dry_run=True)) == 1
    assert len(states.folders()) == 1
    states.sweep(lambda _: False)
    assert states.folders() == []


def test_equal_keys_have_equal_hashes_whatever_their_layout() -> None:
    floats = pa.array([0.0, float("nan"), None], pa.float64())
    others = pa.array([9.0, -0.0, np.frombuffer(b"\1\0\0\0\0\0\xf8\x7f")[0], None])[1:]
    assert key_hashes([floats]).tolist() == key_hashes([others]).tolist()
    texts = pa.array(["a", "", None, "ü" * 300, "ü" * 300 + "x"])
    whole = key_hashes([texts])
    for at in range(len(texts)):
        assert key_hashes([texts[at : at + 1]])[0] == whole[at]
        assert key_hashes([texts.cast(pa.large_string())[at : at + 1]])[0] == whole[at]
    assert len(set(whole.tolist())) == len(texts)


@pytest.mark.parametrize(
    "kind",
    [
        pa.bool_(),
        pa.int8(),
        pa.uint64(),
        pa.float16(),
        pa.date32(),
        pa.time32("ms"),
        pa.timestamp("ms", "UTC"),
        pa.duration("s"),
        pa.decimal128(30, 2),
        pa.binary(),
        pa.binary(2),
    ],
    ids=str,
)
def test_every_flat_type_has_a_hash(kind: pa.DataType) -> None:
    column = pa.array([None, None], kind)
    hashes = key_hashes([column])
    assert hashes[0] == hashes[1]
    assert key_hashes([pa.array([], kind)]).tolist() == []


def test_a_key_of_unknown_values_has_none() -> None:
    for column in (pa.nulls(1), pa.array([[None]])):
        with pytest.raises(NotHashable):
            key_hashes([column])


def test_runs_are_merged_so_that_few_remain() -> None:
    sizes: list[int] = []
    work = 0
    for _ in range(1000):
        sizes.append(10)
        if count := to_merge(sizes):
            work += sum(sizes[-count:])
            sizes[-count:] = [sum(sizes[-count:])]
    assert len(sizes) <= 10
    assert work < 10_000 * 15


def test_a_check_tells_a_state_that_says_what_the_slices_say(
    ledger: Ledger, states: MergeStates
) -> None:
    from odf_storage.datasets.merge_state.store import problem_of, rebuild

    for at in range(9):
        ledger.add([(0, f"c{at}", 1), (at % 2, "a", at)])
        ledger.at(states)
    (folder,) = states.folders()
    assert problem_of(folder, ledger.dataset, deep=True) is None
    kept = build.load(folder)
    assert kept is not None
    first = kept.runs[0][0]
    wrong = build.grown(
        folder, StateManifest(spec=SPEC, head=None), [], head=str(kept.head), schema=SCHEMA
    )
    build.save(folder, wrong)
    assert "other rows" in str(problem_of(folder, ledger.dataset, deep=True))
    assert rebuild(folder, ledger.dataset).rows_seen == len(ledger.rows)
    assert problem_of(folder, ledger.dataset, deep=True) is None
    assert not (folder / first.name).exists()
    garble(next(folder.glob("*.arrow")))
    assert "not what was written" in str(problem_of(folder, ledger.dataset, deep=False))
