"""Rounds of ingests on one dataset leave the blocks and rows of the known answers.

Modes `write` and `push` only: polling is not built yet. Preprocessing for another engine is
refused, so those cases are held to the refusal.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from protocol.chain.author import author
from protocol.chain.snapshot import normalize_event
from protocol.chain.state import EMPTY, ChainState
from protocol.codec.manifests import from_data, to_data
from protocol.identity import DatasetAlias, DatasetId
from protocol.instant import Instant
from protocol.metadata.data import SourceState
from protocol.metadata.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    MetadataEvent,
    Seed,
    SetDataSchema,
    SetPollingSource,
    SetVocab,
)
from protocol.metadata.reading import ReadStep
from protocol.multihash import Multihash
from storage.config import memory_stores
from storage.dataset import Dataset
from storage.errors import RefConflict
from storage.ingest_job import IngestPayload
from storage.stores import Stores
from storage.values import DatasetEntry, ObjectKey, ObjectKind, Visibility
from tests.workers import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from workers.ingest.run import Bench

pytestmark = pytest.mark.spark
BEGIN = Instant.parse("2000-01-01T00:00:00Z")
ID = DatasetId(bytes(32))


def errors() -> dict[str, type[Exception]]:
    from workers.conform import UnexpectedNulls
    from workers.ingest.frame import BadInputSchema
    from workers.plan.ingest import SourceNotFound

    return {
        "ExecutionError": UnexpectedNulls,
        "BadInputSchema": BadInputSchema,
        "SourceNotFound": SourceNotFound,
        "RefCASFailed": RefConflict,
    }


class Runner:
    """One dataset and the rounds played on it."""

    def __init__(self, case: dict[str, Any], spark: SparkSession, folder: Path) -> None:
        from workers.engine.raw_query import SparkEngine
        from workers.ingest.run import Bench

        self.given, self.folder = case["given"], folder
        self.stores: Stores = memory_stores()
        self.bench: Bench = Bench(
            session=spark,
            engine=SparkEngine(spark),
            objects=self.stores.objects,
            scratch=folder,
        )
        self.dataset = self._created()
        self.begin = self.dataset.head()

    def _created(self) -> Dataset:
        given = self.given
        events: list[MetadataEvent] = [Seed(dataset_id=ID, dataset_kind=DatasetKind.Root)]
        if given.get("vocab"):
            events.append(from_data({"kind": "SetVocab", **given["vocab"]}, SetVocab))
        if given["mode"] == "push" and "source" in given:
            events.append(source_of(given["source"]))
        if "polling_source" in given:
            polling = {"kind": "SetPollingSource", **given["polling_source"]}
            events.append(from_data(polling, SetPollingSource))
        events += [from_data(event, MetadataEvent) for event in given["events"]]
        blocks, _ = author(EMPTY, events, system_time=BEGIN)
        entry = DatasetEntry(
            id=ID,
            alias=DatasetAlias.parse("kamu/cities"),
            kind=DatasetKind.Root,
            visibility=Visibility.PUBLIC,
            created_at=BEGIN,
        )
        return self.stores.create_dataset(entry, blocks)

    def play(self, turn: dict[str, Any]) -> None:
        if "append_event" in turn:
            state = self.dataset.state()
            event = from_data(turn["append_event"], MetadataEvent)
            when = Instant.parse(turn["system_time"])
            assert state.head is not None
            self.dataset.commit(author(state, [event], system_time=when)[0], expected=state.head)
        elif self.given["mode"] == "write":
            self._write(turn)
        else:
            self._push(turn)

    def _push(self, turn: dict[str, Any]) -> None:
        from workers.ingest.run import run_ingest

        body = turn["input"]["text"].encode()
        upload = Multihash.of(body)
        self.stores.objects.put(ObjectKey(ID, ObjectKind.UPLOAD, upload), [body])
        payload = IngestPayload(
            upload=str(upload),
            source_name=turn.get("source_name"),
            media_type=turn["input"].get("media_type"),
            source_event_time=turn["source_event_time"],
            expected_head=str(self.begin) if "expected_head" in turn else None,
        )
        now = Instant.parse(turn["system_time"])
        run_ingest(self.dataset, payload, self.bench, now=now)

    def _write(self, turn: dict[str, Any]) -> None:
        from workers.ingest.run import Extras, commit, prepare
        from workers.plan.ingest import plan_source

        source = source_of(self.given["source"])
        override = turn.get("source_override")
        read: ReadStep = from_data(override["read"], ReadStep) if override else source.read
        state: ChainState = self.dataset.state()
        plan = plan_source(
            state,
            source,
            read=read,
            now=Instant.parse(turn["system_time"]),
            source_event_time=Instant.parse(turn["source_event_time"]),
        )
        path = self.folder / "input"
        path.write_text(turn["input"]["text"])
        given_state = turn.get("source_state")
        watermark = turn.get("new_watermark")
        extras = Extras(
            source_state=from_data(given_state, SourceState) if given_state else None,
            watermark=Instant.parse(watermark) if watermark else None,
        )
        outcome = prepare(self.dataset, plan, path, self.bench, self.folder, extras)
        commit(self.dataset, state, plan, outcome, self.bench)

    def slice_table(self, event: AddData) -> Any:
        assert event.new_data is not None
        with self.dataset.open_object(ObjectKind.DATA, event.new_data.physical_hash) as stream:
            return pq.read_table(stream)


def source_of(given: dict[str, Any]) -> AddPushSource:
    parts = {key: given[key] for key in ("read", "preprocess", "merge") if key in given}
    event = from_data({"kind": "AddPushSource", "sourceName": "default", **parts}, AddPushSource)
    normal = normalize_event(event, lambda _: None)
    assert isinstance(normal, AddPushSource)
    return normal


def cases() -> list[Any]:
    return [
        pytest.param(case, id=case["id"])
        for case in tables.cases("ingest")
        if case["given"]["mode"] in ("write", "push")
    ]


@pytest.mark.parametrize("case", cases())
def test_rounds_of_ingests_leave_what_the_answer_says(
    case: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    runner = Runner(case, spark, tmp_path)
    foreign = case["given"].get("source", {}).get("preprocess", {}).get("engine") == "datafusion"
    for turn in case["rounds"]:
        if foreign:
            refused(runner, turn)
            continue
        before = runner.dataset.head()
        expect = turn["expect"]
        if expect["outcome"] == "Error":
            kind = errors()[expect["error"]["kind"]]
            with pytest.raises(kind) as caught:
                runner.play(turn)
            assert expect["error"].get("contains", "") in str(caught.value)
        else:
            runner.play(turn)
        check(runner, before, expect)


def refused(runner: Runner, turn: dict[str, Any]) -> None:
    from workers.engine.port import UnsupportedEngine

    before = runner.dataset.head()
    with pytest.raises(UnsupportedEngine, match="datafusion"):
        runner.play(turn)
    assert runner.dataset.head() == before


def check(runner: Runner, before: Multihash, expect: dict[str, Any]) -> None:
    blocks = runner.dataset.blocks(after=before)
    assert [type(block.event).__name__ for block in blocks] == expect["blocks"]
    events = {type(block.event): block.event for block in blocks}
    if "schema" in expect:
        from protocol.arrow_schema import to_arrow

        schema = events[SetDataSchema]
        assert isinstance(schema, SetDataSchema)
        assert schema.schema is not None
        assert tables.schema_rows(to_arrow(schema.schema)) == expect["schema"]
    if expect.get("add_data"):
        event = events[AddData]
        assert isinstance(event, AddData)
        check_event(event, expect["add_data"])
        if "data" in expect:
            table = runner.slice_table(event)
            assert table.column_names == expect["data"]["columns"]
            assert tables.rows_of(table) == expect["data"]["rows"]


def check_event(event: AddData, expect: dict[str, Any]) -> None:
    assert event.prev_offset == expect["prev_offset"]
    watermark = expect["new_watermark"]
    assert event.new_watermark == (Instant.parse(watermark) if watermark else None)
    state = event.new_source_state
    assert (to_data(state) if state else None) == expect["new_source_state"]
    interval = event.new_data.offset_interval if event.new_data else None
    found = {"offset_interval": [interval.start, interval.end]} if interval else None
    assert found == expect["new_data"]
