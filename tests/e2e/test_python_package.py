"""`odf_node.publish` and what follows, in a program, against a node with a worker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from nodes import RunningNode, served
from refusals import refusing

import odf_node

pytestmark = pytest.mark.e2e

ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "city": ["Oslo", None, "Rome"],
        "size": pa.array([Decimal("1.50"), None, Decimal("2.25")], pa.decimal128(9, 2)),
        "day": [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)],
        "seen": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
        "tags": [["a"], [], ["b", "c"]],
    }
)
SYSTEM = {"offset", "op", "system_time", "event_time"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    data = tmp_path_factory.mktemp("python") / "node"
    with served(data, ODF_WORKER_WARM_UP="false") as running:
        yield running


@pytest.fixture(autouse=True)
def token(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODF_NODE_TOKEN", node.token())
    monkeypatch.setenv("ODF_NODE_URL", node.url)


def test_a_frame_is_published_read_pulled_and_verified(node: RunningNode, tmp_path: Path) -> None:
    url = f"{node.url}/cities"
    receipt = odf_node.publish(ROWS, url, description="Three cities")
    assert (receipt.outcome, receipt.rows_added) == ("updated", 3)
    data = odf_node.open(url)
    assert receipt.block == data.block
    read = data.arrow(columns=["id", "city", "size", "day", "tags"])
    assert read.to_pylist() == ROWS.drop_columns("seen").to_pylist()
    odf_node.pull(url, tmp_path / "cities")
    assert odf_node.verify(tmp_path / "cities").ok
    assert odf_node.push(tmp_path / "cities", url).outcome == "up-to-date"


def test_equal_appends_are_two_appends_and_a_named_repeat_is_one(node: RunningNode) -> None:
    url = f"{node.url}/twice"
    first = odf_node.publish(ROWS, url)
    assert odf_node.publish(ROWS, url).rows_added == 3
    named = odf_node.publish(ROWS, url, idempotency_key="once more")
    again = odf_node.publish(ROWS, url, idempotency_key="once more")
    assert (named.replayed, again.replayed, again.block) == (False, True, named.block)
    assert odf_node.open(url).arrow().num_rows == 9
    with pytest.raises(odf_node.NodeError):
        odf_node.publish(ROWS, url, expected_head=first.block)


def test_a_value_that_returns_is_a_change_of_its_own(node: RunningNode) -> None:
    url = f"{node.url}/returns"
    for value in ("a", "b", "a"):
        receipt = odf_node.publish([{"id": 1, "n": value}], url, key=["id"])
        assert not receipt.replayed
    assert receipt.rows_corrected == 1
    assert odf_node.open(url).arrow(columns=["n"], projection="state").to_pylist() == [{"n": "a"}]


def test_rows_with_a_key_correct_those_that_are_there(node: RunningNode) -> None:
    url = f"{node.url}/keyed"
    odf_node.publish([{"id": 1, "n": "a"}, {"id": 2, "n": "b"}], url, key=["id"])
    receipt = odf_node.publish([{"id": 2, "n": "B"}, {"id": 3, "n": "c"}], url)
    assert (receipt.rows_added, receipt.rows_corrected, receipt.rows_retracted) == (1, 1, 0)
    state = odf_node.open(url).arrow(columns=["id", "n"], projection="state")
    assert state.sort_by("id").to_pylist() == [
        {"id": 1, "n": "a"},
        {"id": 2, "n": "B"},
        {"id": 3, "n": "c"},
    ]


def test_a_snapshot_retracts_what_it_lacks(node: RunningNode) -> None:
    url = f"{node.url}/snapshots"
    odf_node.publish({"id": [1, 2]}, url, key=["id"], merge="snapshot")
    assert odf_node.publish({"id": [2]}, url).rows_retracted == 1


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"v": [1, 2]}, index=pd.Index(["a", "b"], name="k")),
        pl.DataFrame({"k": ["a", "b"], "v": [1, 2]}),
        duckdb.sql("select * from (values ('a', 1), ('b', 2)) t(k, v)"),
        pa.RecordBatch.from_pylist([{"k": "a", "v": 1}, {"k": "b", "v": 2}]),
    ],
    ids=["pandas", "polars", "duckdb", "arrow"],
)
def test_frames_of_all_libraries_are_published(
    node: RunningNode, frame: object, request: pytest.FixtureRequest
) -> None:
    url = f"{node.url}/from-{request.node.callspec.id}"
    assert odf_node.publish(frame, url).rows_added == 2
    read = odf_node.open(url).pandas()
    assert set(read.columns) == SYSTEM | {"k", "v"}
    assert sorted(zip(read["k"], read["v"], strict=True)) == [("a", 1), ("b", 2)]


def test_an_index_without_a_name_is_said_to_be_left_out(node: RunningNode) -> None:
    url = f"{node.url}/indexed"
    frame = pd.DataFrame({"v": [1, 2]})
    assert odf_node.publish(frame, url).warnings == ()
    told = odf_node.publish(frame.set_axis(["a", "b"]), url).warnings
    assert told[0].startswith("the index of pandas (a, b, …) has no name and is not stored")


def test_the_column_with_the_event_time_is_named(node: RunningNode) -> None:
    url = f"{node.url}/timed"
    odf_node.publish({"at": [datetime(2020, 1, 1, tzinfo=UTC)], "v": [1]}, url, event_time="at")
    assert odf_node.open(url).schema.names == ["offset", "op", "system_time", "at", "v"]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"key": ["nothing"]}, "UnusableChoice"),
        ({"event_time": "nothing"}, "UnusableChoice"),
        ({"merge": "ledger"}, "UnusableChoice"),
        ({"merge": "append", "key": ["id"]}, "UnusableChoice"),
        ({"merge": "all", "key": ["id"]}, "UnusableOption"),
    ],
)
def test_what_cannot_be_published_is_refused_and_nothing_is_created(
    node: RunningNode, given: dict[str, object], error: str
) -> None:
    url = f"{node.url}/refused"
    with refusing(error):
        odf_node.publish(ROWS, url, **given)  # type: ignore[arg-type]
    with pytest.raises(odf_node.NodeError):
        odf_node.open(url).arrow()


def test_something_without_rows_is_no_table(node: RunningNode, tmp_path: Path) -> None:
    with refusing("NotATable", match="a int cannot be read as a table"):
        odf_node.publish(7, f"{node.url}/seven")
    with refusing("UnsupportedUrl", match="rows are posted to a node"):
        odf_node.publish(ROWS, str(tmp_path))


def test_a_file_is_published_by_its_path_as_the_command_does(
    node: RunningNode, tmp_path: Path
) -> None:
    file = tmp_path / "towns.csv"
    file.write_text("Report\nid;name;share\n1;Oslo;1,5\n2;C:\\x;2,25\n")
    receipt = odf_node.publish(file, f"{node.url}/towns-of-python", separator=";")
    assert (receipt.rows_added, receipt.replayed) == (2, False)
    assert any("left out before the header" in note for note in receipt.notes)
    rows = odf_node.open(f"{node.url}/towns-of-python").arrow().to_pylist()
    assert [(row["name"], row["share"]) for row in rows] == [("Oslo", 1.5), ("C:\\x", 2.25)]
