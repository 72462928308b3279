"""`odf_node.open`: datasets as tables in a Python program."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from refusals import refusing
from service import SCHEMA, Chain, Service, described, seeded, serving

import odf_node
from odf_node.public.dataset import MissingLibrary
from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import AddPushSource, SetDataSchema
from odf_protocol.metadata.sources import MergeStrategySnapshot, ReadStepNdJson
from odf_storage.datasets.read.scan import UnreadableSlice
from odf_storage.stores.ports.values import Visibility

KEYED = AddPushSource(
    source_name="default",
    read=ReadStepNdJson(),
    merge=MergeStrategySnapshot(primary_key=("city",)),
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(tmp_path_factory.mktemp("public") / "node") as service:
        yield service


@pytest.fixture(scope="module")
def chain() -> Chain:
    return seeded().add(described(), KEYED, SetDataSchema(schema=SCHEMA)).add_rows(3).add_rows(4)


@pytest.fixture(scope="module")
def url(service: Service, chain: Chain) -> str:
    service.keep(chain, "kamu/city", Visibility.PUBLIC)
    return f"{service.url}/city"


@pytest.fixture(scope="module")
def folder(url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("copies") / "city"
    odf_node.pull(url, copy)
    return copy


@pytest.fixture(params=["node", "chain", "folder", "smart"])
def dataset(request: pytest.FixtureRequest, url: str, folder: Path) -> odf_node.Dataset:
    """The same dataset by every way there is."""
    match request.param:
        case "folder":
            return odf_node.open(folder)
        case "smart":
            return odf_node.open(f"odf+{url}", verify=True)
        case how:
            return odf_node.open(url, verify=how == "chain")


def test_every_way_gives_the_same_rows(dataset: odf_node.Dataset, url: str) -> None:
    table = dataset.arrow()
    assert table.column("offset").to_pylist() == list(range(7))
    assert table.equals(odf_node.open(url).arrow())
    assert table.schema.metadata == {b"odf.block": dataset.block.encode()}


def test_rows_and_columns_are_chosen(dataset: odf_node.Dataset) -> None:
    table = dataset.arrow(columns=["city", "offset"], skip=2, limit=3)
    assert table.column_names == ["city", "offset"]
    assert table.column("offset").to_pylist() == [2, 3, 4]
    assert dataset.arrow(projection="facts").num_rows == 7


@pytest.mark.parametrize(
    ("filters", "offsets"),
    [
        ("city:eq:c3", [3]),
        (["population:ge:200", "population:lt:500"], [2, 3, 4]),
        ('city:in:c1,"c6"', [1, 6]),
        ("city:null", []),
        ((), [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_rows_are_filtered(
    dataset: odf_node.Dataset, filters: str | list[str], offsets: list[int]
) -> None:
    assert dataset.arrow(columns=["offset"], filter=filters)["offset"].to_pylist() == offsets
    facts = dataset.pandas(filter=filters, projection="facts", limit=2)
    assert list(facts["offset"]) == offsets[:2]


def test_only_slices_that_may_hold_a_row_of_the_answer_are_opened(
    folder: Path, tmp_path: Path
) -> None:
    part = tmp_path / "part"
    shutil.copytree(folder, part)
    newest = odf_node.open(part).arrow(filter="offset:ge:3", columns=["offset"], changelog=True)
    for file in (part / "data").iterdir():
        if pq.read_metadata(file).num_rows == 3:
            file.unlink()
    again = odf_node.open(part).arrow(filter="offset:ge:3", columns=["offset"], changelog=True)
    assert again.equals(newest)


def test_a_filter_that_is_none_is_refused(dataset: odf_node.Dataset) -> None:
    for wrong in ("city=c1", "city:like:c", "population:eq:many", "town:eq:c1"):
        with pytest.raises(BadInput):
            dataset.arrow(filter=wrong)


def test_a_dataset_is_read_as_of_a_block(dataset: odf_node.Dataset, url: str, chain: Chain) -> None:
    earlier = odf_node.open(url, at=str(chain.blocks[-2].hash))
    assert earlier.arrow().num_rows == 3
    assert earlier.block == str(chain.blocks[-2].hash)


def test_frames_of_all_libraries_hold_the_same_rows(dataset: odf_node.Dataset) -> None:
    frame = dataset.pandas(columns=["offset", "city"])
    assert list(frame["offset"]) == list(range(7))
    assert frame.attrs["odf.block"] == dataset.block
    assert dataset.polars()["offset"].to_list() == list(range(7))
    relation = dataset.duckdb(columns=["offset"])
    assert relation.aggregate('sum("offset")').fetchone() == (21,)


def test_a_library_that_is_missing_is_named(
    dataset: odf_node.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingLibrary, match="pip install polars"):
        dataset.polars()


def test_history_lists_the_blocks_newest_first(dataset: odf_node.Dataset, chain: Chain) -> None:
    assert [block["hash"] for block in dataset.history()] == [
        str(block.hash) for block in reversed(chain.blocks)
    ]
    assert [block["sequenceNumber"] for block in dataset.history(limit=2)] == [5, 4]


def test_changes_go_on_where_the_last_ones_ended(dataset: odf_node.Dataset) -> None:
    first = dataset.changes(since=5)
    assert first.rows.column("offset").to_pylist() == [5, 6]
    again = dataset.changes(since=str(first.position))
    assert again.rows.num_rows == 0
    assert again.position == first.position


def test_changes_after_a_block_that_is_gone_say_so(dataset: odf_node.Dataset) -> None:
    gone = f"7@f1620{'0' * 64}"
    with refusing("HistoryReplaced", match="read it from the beginning"):
        dataset.changes(since=gone)
    with refusing("MalformedPosition"):
        dataset.changes(since="yesterday")


def test_what_is_asked_wrongly_is_said(dataset: odf_node.Dataset) -> None:
    with pytest.raises(odf_node.NodeError, match="no column 'town'"):
        dataset.arrow(columns=["town"])
    with pytest.raises(odf_node.NodeError, match="a projection is one of"):
        dataset.arrow(projection="all")  # type: ignore[typeddict-item]


def test_a_time_says_in_which_zone_it_is(url: str) -> None:
    from datetime import UTC, datetime

    with refusing("TimeWithoutZone"):
        odf_node.open(url, at=datetime(2026, 1, 1))
    late = odf_node.open(url, at=datetime(2999, 1, 1, tzinfo=UTC))
    assert late.arrow().num_rows == 7


def test_a_dataset_that_is_not_there_is_missing(service: Service) -> None:
    for verify in (False, True):
        with pytest.raises(odf_node.NodeError, match=r"no dataset|nothing is there"):
            odf_node.open(f"{service.url}/nowhere", verify=verify).arrow()


def test_a_changed_byte_is_found_before_a_row_is_given(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    file = max((broken / "data").iterdir(), key=lambda each: each.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)
    with pytest.raises(UnreadableSlice, match="its bytes hash to"):
        odf_node.open(broken).arrow()
    assert odf_node.verify(folder).ok
    assert not odf_node.verify(broken).ok


def test_a_token_goes_to_its_own_node_only(
    service: Service, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.keep(seeded(b"p" * 32).add(described()), "kamu/hidden", Visibility.PRIVATE)
    monkeypatch.setenv("ODF_NODE_TOKEN", service.token())
    monkeypatch.setenv("ODF_NODE_URL", "https://elsewhere.example")
    hidden = odf_node.open(f"{service.url}/hidden")
    with pytest.raises(odf_node.NodeError):
        hidden.history()
    monkeypatch.setenv("ODF_NODE_URL", service.url)
    assert len(odf_node.open(f"{service.url}/hidden").history()) == 2


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import odf_node, sys;"
        "odf_node.open, odf_node.publish;"
        "print([m for m in ('pyspark','pandas','polars','duckdb','fastapi','uvicorn','pyarrow')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_names_are_imported_without_a_library_that_a_reader_need_not_have() -> None:
    code = (
        "import sys; sys.modules |= dict.fromkeys(['pyspark', 'fsspec', 'pandas', 'polars']);"
        "from odf_node import *; print(Following.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("Following", "")


def test_every_name_that_is_offered_is_there() -> None:
    assert all(getattr(odf_node, name) is not None for name in odf_node.__all__)
    with pytest.raises(AttributeError):
        odf_node.nothing  # noqa: B018 - what is tested
