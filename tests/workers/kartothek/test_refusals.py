"""Kartothek sources that cannot be right are refused, and add no block."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kartothek_vectors import KARTOTHEK
from refusals import refusing
from static_files import answering, send
from tests.workers.kartothek.polled import Polled, snapshot

from odf_protocol.errors import NodeError, NotFound
from odf_protocol.kartothek.keys import BadKartothek, KartothekFileMissing
from odf_protocol.metadata.sources import (
    CompressionFormat,
    EventTimeSourceFromPath,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    PrepStepDecompress,
    ReadStepCsv,
)

STATE = "inventory.by-dataset-metadata.json"
SOUTH = "inventory/table/warehouse=south/48d31d3a90b747528dba863ce1448828.parquet"
Change = Callable[[Path], None]


def stated(change: Callable[[dict[str, Any]], None]) -> Change:
    """The state file says something else."""

    def work(folder: Path) -> None:
        said = json.loads((folder / STATE).read_text())
        change(said)
        (folder / STATE).write_text(json.dumps(said))

    return work


def key_of_a_partition(key: str) -> Change:
    def change(said: dict[str, Any]) -> None:
        next(iter(said["partitions"].values()))["files"]["table"] = key

    return stated(change)


def other_types(folder: Path) -> None:
    pq.write_table(pa.table({"item_id": ["a"], "qty": [1]}), folder / SOUTH)


def other_partition_columns(folder: Path) -> None:
    moved = folder / "inventory/table/place=south/x.parquet"
    moved.parent.mkdir()
    shutil.copy(folder / SOUTH, moved)
    key_of_a_partition("inventory/table/place=south/x.parquet")(folder)


DAMAGES: dict[str, tuple[Change, str, str]] = {
    "version": (stated(lambda said: said.update(dataset_metadata_version=5)), STATE, "is 5"),
    "version text": (stated(lambda said: said.update(dataset_metadata_version="4")), STATE, "'4'"),
    "uuid": (stated(lambda said: said.update(dataset_uuid="other")), STATE, "'other'"),
    "torn": (lambda f: (f / STATE).write_text((f / STATE).read_text()[:90]), STATE, "no JSON"),
    "schema": (
        lambda folder: (folder / "inventory/table/_common_metadata").unlink(),
        "inventory/table/_common_metadata",
        "no schema file",
    ),
    "file": (lambda folder: (folder / SOUTH).unlink(), SOUTH, "no such data file"),
    "dots": (key_of_a_partition("inventory/table/../x.parquet"), "..", "component"),
    "absolute": (key_of_a_partition("/etc/x.parquet"), "/etc/x.parquet", "inside of its store"),
    "csv": (key_of_a_partition("inventory/table/x.csv"), "x.csv", "Parquet only"),
    "label": (
        stated(lambda said: said.update(partitions={"\ud800": {"files": {"table": SOUTH}}})),
        STATE,
        "Unicode",
    ),
    "types": (other_types, SOUTH, "it holds text"),
    "columns": (other_partition_columns, "place=south/x.parquet", "partition columns"),
    "bytes": (lambda folder: (folder / SOUTH).write_bytes(b"PAR1"), SOUTH, "Parquet"),
    "no bytes": (lambda folder: (folder / SOUTH).write_bytes(b""), SOUTH, "Parquet"),
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    shutil.copytree(KARTOTHEK / "steps" / "2", folder)
    return folder


def polled_from(store: Path, **more: Any) -> Polled:
    return Polled(
        store.parent, f"kartothek+{store.as_uri()}/inventory", snapshot("item_id"), **more
    )


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_dataset_fails_the_poll_until_it_is_repaired(store, damage):
    change, file, reason = DAMAGES[damage]
    change(store)
    polled = polled_from(store)
    before = polled.blocks
    with pytest.raises(NodeError) as refused:
        polled()
    assert isinstance(refused.value, BadKartothek | NotFound) or damage in ("bytes", "no bytes")
    assert file in refused.value.message
    assert reason in refused.value.message
    assert file in str(refused.value.facts["key"])
    assert polled.blocks == before
    shutil.rmtree(store)
    shutil.copytree(KARTOTHEK / "steps" / "2", store)
    assert polled().rows_added == 5


@pytest.mark.spark
def test_on_spark_a_damaged_file_is_named_as_well(store, spark):
    other_types(store)
    with pytest.raises(BadKartothek, match="it holds text") as refused:
        polled_from(store, spark=spark)()
    assert refused.value.facts["key"] == SOUTH


def test_indices_do_not_matter(store):
    for path in store.rglob("*index.parquet"):
        path.write_bytes(b"damaged")
    assert polled_from(store)().rows_added == 5


def test_files_that_vanish_are_looked_for_in_one_fresh_state_file(store):
    fresh = (store / STATE).read_bytes()
    key_of_a_partition("inventory/table/warehouse=south/collected.parquet")(store)
    asked = []

    def answer(handler):
        name = handler.path.removeprefix("/").replace("%3D", "=").replace("%253A", "%3A")
        asked.append(name)
        path = store / name
        content = path.read_bytes() if path.is_file() else None
        if name == STATE:
            path.write_bytes(fresh)
        send(handler, 404) if content is None else send(handler, 200, content)

    with answering(answer) as served:
        polled = Polled(store.parent, f"kartothek+{served.url}inventory", snapshot("item_id"))
        assert polled().rows_added == 5
    assert asked.count(STATE) == 2


def test_files_that_stay_away_end_the_poll(store):
    (store / SOUTH).unlink()
    with pytest.raises(KartothekFileMissing, match="named by inventory"):
        polled_from(store)()


def test_a_folder_that_nobody_allowed_is_not_read(store, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(store, elsewhere / "store")
    with refusing("SourceRefused") as refused:
        Polled(store.parent, f"kartothek+file://{elsewhere}/store/inventory", snapshot("item_id"))()
    assert refused.value.facts["setting"] == "ODF_WORKER_FETCH_ROOTS"
    with refusing("SourceMissing", match="no folder"):
        Polled(store.parent, f"kartothek+file://{store}/no/inventory", snapshot("item_id"))()


@pytest.mark.parametrize(
    "allowed",
    ["s3://bucket/other", "s3://bucket/tab", "s3+http://localhost/bucket/tables", "s3://buckets"],
)
def test_a_bucket_that_nobody_allowed_is_not_asked(store, allowed):
    url = "kartothek+s3://bucket/tables/inventory"
    with refusing("SourceRefused") as refused:
        Polled(store.parent, url, snapshot("item_id"), buckets=(allowed,))()
    assert refused.value.facts["setting"] == "ODF_WORKER_FETCH_BUCKETS"


def test_a_web_server_of_the_private_network_is_not_asked(store):
    with answering(lambda handler: send(handler, 200)) as served:
        polled = Polled(
            store.parent, f"kartothek+{served.url}inventory", snapshot("item_id"), networks=()
        )
        with pytest.raises(NodeError, match="public network"):
            polled()
    assert served.requests == []


def test_a_web_server_that_redirects_into_the_private_network_is_not_followed(store):
    def answer(handler):
        send(handler, 302, Location="http://10.0.0.1/inventory.json")

    with answering(answer) as served:
        polled = Polled(store.parent, f"kartothek+{served.url}inventory", snapshot("item_id"))
        with refusing("SourceRefused", match="network"):
            polled()


def test_a_web_server_that_fails_is_no_empty_dataset(store):
    with answering(lambda handler: send(handler, 500)) as served:
        polled = Polled(store.parent, f"kartothek+{served.url}inventory", snapshot("item_id"))
        with refusing("SourceUnreachable", match="500"):
            polled()


def test_all_files_together_are_bounded(store):
    polled = polled_from(store)
    sizes = sum(path.stat().st_size for path in store.rglob("warehouse=*/*.parquet"))
    fetch = replace(polled.context.polls.fetch, max_bytes=sizes - 1)
    polled.context = replace(polled.context, polls=replace(polled.context.polls, fetch=fetch))
    with refusing("FetchedTooLarge"):
        polled()


UNFIT = {
    "append": {"merge": MergeStrategyAppend()},
    "changelog": {"merge": MergeStrategyChangelogStream(primary_key=("item_id",))},
    "prepare": {"prepare": (PrepStepDecompress(format=CompressionFormat.Gzip),)},
    "read": {"read": ReadStepCsv()},
    "path": {"fetch": {"event_time": EventTimeSourceFromPath(pattern="(.*)")}},
}


@pytest.mark.parametrize("wrong", UNFIT)
def test_a_source_of_others_that_cannot_be_right_is_refused_by_the_poll(store, wrong):
    given = {"merge": snapshot("item_id"), **UNFIT[wrong]}
    polled = Polled(store.parent, f"kartothek+{store.as_uri()}/inventory", **given)
    with pytest.raises(NodeError) as refused:
        polled()
    assert refused.value.code == "UnfitSource" or wrong == "path"
    assert polled.dataset.state().last_offset is None


def test_an_address_that_comes_out_of_a_template_is_looked_at_as_well(store):
    polled = Polled(store.parent, "${{ env.WHERE }}", snapshot("item_id"))
    for where, error in (
        (f"kartothek+{store.as_uri()}/in.ventory", "MalformedAddress"),
        (f"kartothek+{store.as_uri()}/hush", "NoKartothek"),
    ):
        fetch = replace(polled.context.polls.fetch, variables={"WHERE": where})
        polled.context = replace(polled.context, polls=replace(polled.context.polls, fetch=fetch))
        with refusing(error) as refused:
            polled()
        assert "hush" not in refused.value.message + str(refused.value.facts)
