"""A dataset is published, and what was published is ingested: the rows that stand are the same."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from kartothek_made import Made
from kartothek_published import A, C, D, Growing, Publisher, R
from kartothek_vectors import KARTOTHEK, in_any_order
from refusals import refusing
from tests.workers.kartothek.polled import Polled, snapshot, state_of

from odf_protocol.kartothek.keys import partition_folder
from odf_protocol.metadata.schema import DataField, DataSchema, DataTypeInt32, DataTypeString
from odf_protocol.metadata.sources import ReadStepParquet
from odf_storage.datasets.kartothek.definition import Mode
from odf_storage.datasets.kartothek.select import open_table
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.keyed.folder import FolderKeyedStore

HOSTILE = [
    "",
    " ",
    "a/b",
    "100%",
    "%2F",
    "x=y",
    'it\'s "so"',
    "żółw 東京",
    "a+b&c",
    "\\",
    "..",
    "a\nb",
]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Growing]:
    stores = open_stores(StoreSettings(data=tmp_path / "node", durable=False))
    yield Growing(stores)
    stores.close()


def changes(standing: dict[str, int], pick: random.Random) -> list[tuple[int, str, int]]:
    """A random commit, after which `standing` is the state."""
    rows = []
    for name in pick.sample(HOSTILE + [f"c{n}" for n in range(8)], pick.randint(1, 5)):
        if name not in standing:
            standing[name] = pick.randint(0, 99)
            rows.append((A, name, standing[name]))
        elif pick.random() < 0.5:
            rows.append((R, name, standing.pop(name)))
        else:
            before, standing[name] = standing[name], pick.randint(100, 199)
            rows += [(C, name, before), (D, name, standing[name])]
    return rows


def test_what_stands_is_the_same_after_every_commit(made, tmp_path):
    store = FolderKeyedStore(tmp_path / "shop", durable=False)
    publish = Publisher(made, store, tmp_path, mode=Mode.STATE, primary_key=("city",))
    polled = Polled(tmp_path, f"kartothek+{store.root.as_uri()}/u", snapshot("city"))
    pick, standing = random.Random(11), dict[str, int]()
    for _ in range(20):
        made.add(changes(standing, pick))
        publish()
        polled()
        found = {row["city"]: row["pop"] for row in state_of(polled)}
        assert found == standing
        assert len(state_of(polled)) == len(standing)
    assert set(polled.table().schema.names) >= {"_offset", "_op", "_system_time", "city", "pop"}
    made.add([(R, name, pop) for name, pop in standing.items()])
    publish()
    polled()
    assert state_of(polled) == []


def test_hostile_texts_of_keys_of_files_are_rows_like_others(tmp_path):
    made = Made(tmp_path / "store").schema({"t": pa.string(), "n": pa.int64()})
    for at, text in enumerate(HOSTILE):
        made.file(f"{partition_folder([('t', text)])}p{at}", {"n": pa.array([at], pa.int8())})
    made.write_state(partition_keys=["t"])
    polled = Polled(tmp_path, f"kartothek+{(tmp_path / 'store').as_uri()}/u", snapshot("t"))
    polled()
    wanted = [{"t": text, "n": at} for at, text in enumerate(HOSTILE)]
    assert in_any_order(state_of(polled)) == in_any_order(wanted)


def test_a_read_step_picks_orders_and_casts_columns(tmp_path):
    made = Made(tmp_path / "store").schema({"n": pa.int64(), "t": pa.string(), "x": pa.float64()})
    made.file("p", {"t": ["b"], "n": pa.array([7], pa.int8()), "__index_level_0__": [3]})
    made.file("q", {"t": pa.array(["a"]).dictionary_encode(), "n": [8]})
    made.write_state()
    fields = (DataField(name="t", type=DataTypeString()), DataField(name="n", type=DataTypeInt32()))
    schema = DataSchema(fields=fields)
    polled = Polled(
        tmp_path,
        f"kartothek+{(tmp_path / 'store').as_uri()}/u",
        snapshot("n"),
        read=ReadStepParquet(schema=schema),
    )
    polled()
    assert polled.table().schema.names[-2:] == ["t", "n"]
    assert polled.table().schema.field("n").type == pa.int32()
    assert in_any_order(state_of(polled)) == in_any_order([{"t": "b", "n": 7}, {"t": "a", "n": 8}])


def test_a_table_without_rows_gives_its_columns(tmp_path):
    made = Made(tmp_path / "store").schema({"offset": pa.int64(), "n": pa.uint64()})
    made.write_state()
    polled = Polled(tmp_path, f"kartothek+{(tmp_path / 'store').as_uri()}/u", snapshot("n"))
    polled()
    schema = polled.dataset.state().data_schema
    assert schema is not None
    assert [field.name for field in schema.fields][-2:] == ["_offset", "n"]
    assert polled().outcome == "up-to-date"
    made.file("p", {"n": pa.array([2**64 - 1], pa.uint64()), "offset": [1]}).write_state()
    polled()
    assert state_of(polled) == [{"_offset": 1, "n": 2**64 - 1}]
    made.state["partitions"] = {}
    made.write_state()
    polled()
    assert state_of(polled) == []


def test_one_of_several_tables_is_chosen_by_the_address(tmp_path):
    shutil.copytree(KARTOTHEK / "legacy", tmp_path / "store")
    store = FolderKeyedStore(tmp_path / "store")
    schema = open_table(store, "twotables", "core").schema
    url = f"kartothek+{store.root.as_uri()}/twotables"
    polled = Polled(tmp_path, f"{url}?table=core", snapshot(*schema.names))
    assert polled().rows_added > 0
    assert set(polled.added(0)[0]) == {*schema.names, "op"}
    with refusing("TableNotChosen", match="core, helper"):
        Polled(tmp_path, url, snapshot(*schema.names))()
