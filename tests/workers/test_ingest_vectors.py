"""Rounds of ingests on one dataset leave the blocks and rows of the known answers, wherever the
stages run: in the process, in many partitions, in one task of Spark, or in several of its jobs.

Hosts and paths of polled sources are placeholders: they are served on loopback, or lie in the
folder of the test.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.workers import tables
from tests.workers.datasets import ingest_options
from tests.workers.partitions.many import Many
from throwaway import throwaway_stores
from web_server import Answer, web_server

from odf_protocol.chain.rules import author
from odf_protocol.chain.snapshot import normalize_event
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.codec.manifests import from_data, to_data
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    MetadataEvent,
    Seed,
    SetDataSchema,
    SetPollingSource,
    SetVocab,
    SourceState,
)
from odf_protocol.metadata.sources import ReadStep
from odf_protocol.multihash import Multihash
from odf_protocol.references import SUMMARY_KEY
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload, RanReceipt
from odf_storage.datasets.job_payloads.poll_job import PollPayload, PollReceipt
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind, Visibility
from odf_workers.jobs.ingest import run
from odf_workers.partitions.port import Here
from odf_workers.readers.formats import csv_cuts, splits
from odf_workers.stages import pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.jobs.work.context import WorkerContext

pytestmark = pytest.mark.spark
BEGIN = Instant.parse("2000-01-01T00:00:00Z")
ID = DatasetId(bytes(32))
JOBS = {
    "process": {0},
    "many partitions": {0, 1},  # an empty file is a task of its own
    "task of Spark": {1},
    "jobs of Spark": {1, 2, 3, 4},  # only reading, if a file is empty
}
"""Jobs of Spark that a round takes."""

CODES = {
    "ExecutionError": ("UnexpectedNulls", "BadRow"),
    "MergeError": ("CannotMerge",),
    "RefCASFailed": ("RefConflict",),
}
"""Codes of our errors where the answers have another name."""


class Runner:
    """One dataset and the rounds played on it; `web` answers for polled hosts."""

    def __init__(self, case: dict[str, Any], spark: SparkSession, folder: Path, web: Any) -> None:
        from odf_workers.engines.datafusion.engine import DataFusionEngine
        from odf_workers.engines.spark_engine.engine import SparkEngine
        from odf_workers.fetch.values import FetchRules
        from odf_workers.jobs.work.context import Engines, PollOptions, WorkerContext

        self.given, self.folder, self.web = case["given"], folder, web
        self.receipt: PollReceipt | None = None
        self.ran: list[RanReceipt | None] = []
        """Where each round ran; None for a round without input."""
        self.stores: Stores = throwaway_stores()
        self.bench: WorkerContext = WorkerContext(
            engines=Engines(session=spark, first=SparkEngine(spark), others=(DataFusionEngine(),)),
            objects=self.stores.objects,
            scratch=folder,
            ingest=ingest_options(folder),
            polls=PollOptions(
                fetch=FetchRules(
                    networks=("127.0.0.0/8",),
                    roots=(folder,),
                    resolve=lambda host, port: ["127.0.0.1"],
                )
            ),
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
        sources = given.get("sources", [])
        events += [source_of(source, source["source_name"]) for source in sources]
        polling = given.get("polling_source")
        if given["mode"] == "poll":
            polling = given.get("source")
        if polling is not None:
            events.append(self._polling(polling))
        events += [from_data(event, MetadataEvent) for event in given["events"]]
        blocks, _ = author(EMPTY, events, system_time=BEGIN)
        entry = DatasetEntry(
            id=ID,
            alias=DatasetAlias.parse("kamu/cities"),
            kind=DatasetKind.Root,
            visibility=Visibility.PUBLIC,
            created_at=BEGIN,
        )
        for text in given.get("objects", []):
            content = text.encode()
            key = ObjectKey(ID, ObjectKind.DATA, Multihash.of(content))
            self.stores.objects.put(key, [content])
        return self.stores.create_dataset(entry, blocks)

    def _polling(self, source: dict[str, Any]) -> MetadataEvent:
        text = json.dumps({"kind": "SetPollingSource", **source})
        text = text.replace("srv.test", f"srv.test:{self.web.port}")
        text = text.replace("/in/", f"{self.folder}/in/")
        event: MetadataEvent = from_data(json.loads(text), SetPollingSource)
        return normalize_event(event, lambda _: None)

    def play(self, turn: dict[str, Any]) -> None:
        if "append_event" in turn:
            state = self.dataset.state()
            event = from_data(turn["append_event"], MetadataEvent)
            when = Instant.parse(turn["system_time"])
            assert state.head is not None
            self.dataset.commit(author(state, [event], system_time=when)[0], expected=state.head)
        elif self.given["mode"] == "write":
            self._write(turn)
        elif self.given["mode"] == "poll":
            self._poll(turn)
        else:
            self._push(turn)

    def _poll(self, turn: dict[str, Any]) -> None:
        from odf_workers.jobs.sources.poll import run_poll

        if "input" in turn:
            path = self.folder / "in" / Path(self.given["source"]["fetch"]["url"]).name
            path.parent.mkdir(exist_ok=True)
            path.write_text(turn["input"]["text"])
            when = Instant.parse(turn["input"]["mtime"]).ns
            os.utime(path, ns=(when, when))
        if "response" in turn:
            answer = turn["response"]
            body = answer["body"].encode()
            self.web.answer = lambda _: Answer(answer["status"], answer["headers"], body)
        now = Instant.parse(turn["system_time"])
        payload = PollPayload(source_event_time=turn.get("source_event_time"))
        self.receipt = run_poll(self.dataset, payload, self.bench, now=now)
        self.ran.append(self.receipt.ran)

    def _push(self, turn: dict[str, Any]) -> None:
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
        self.ran.append(run.run_ingest(self.dataset, payload, self.bench, now=now).ran)

    def _write(self, turn: dict[str, Any]) -> None:
        from odf_workers.jobs.ingest.outcome import Extras
        from odf_workers.plan.ingest import plan_source

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
        post = run.prepare_post(self.dataset, plan, path, self.bench, self.folder, extras)
        batch = run.write_post(self.dataset, state, post, self.bench, self.folder)
        run.commit(self.dataset, batch, self.bench)
        self.ran.append(batch.receipts[0].ran)

    def slice_table(self, event: AddData) -> Any:
        assert event.new_data is not None
        with self.dataset.open_object(ObjectKind.DATA, event.new_data.physical_hash) as stream:
            return pq.read_table(stream)


def source_of(given: dict[str, Any], name: str = "default") -> AddPushSource:
    parts = {key: given[key] for key in ("read", "preprocess", "merge") if key in given}
    event = from_data({"kind": "AddPushSource", "sourceName": name, **parts}, AddPushSource)
    normal = normalize_event(event, lambda _: None)
    assert isinstance(normal, AddPushSource)
    return normal


def cases() -> list[Any]:
    return [
        pytest.param(case, id=case["id"])
        for case in tables.cases("ingest")
        if case["given"]["mode"] in ("write", "push", "poll")
    ]


@pytest.fixture(params=JOBS)
def way(
    request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Where all stages run during the test. Whatever can be cut is cut, but for a task of Spark."""
    from odf_workers.partitions.on_spark import OnSpark

    name = str(request.param)
    ways = {"process": Here(), "many partitions": Many(3, random.Random(1))}
    monkeypatch.setattr(run, "way_of", lambda *_: ways.get(name) or OnSpark(spark))
    if name in ("many partitions", "jobs of Spark"):
        monkeypatch.setattr(pipeline, "SMALLEST_PARTITION_BYTES", 1)
        monkeypatch.setattr(splits, "SMALLEST_SPLIT_BYTES", 16)
        monkeypatch.setattr(splits, "SCAN_BYTES", 8)
        monkeypatch.setattr(csv_cuts, "SCAN_BYTES", 8)
    return name


@pytest.fixture
def web() -> Iterator[Any]:
    with web_server(lambda _: Answer(500)) as server:
        yield server


EQUAL_BYTES = {("ingest-015", 3)}
"""Rounds in which a file has the bytes that were taken last, at another time: this node adds no
block, the reference one with the new time alone."""


@pytest.mark.parametrize("case", cases())
def test_rounds_of_ingests_leave_what_the_answer_says(
    case: dict[str, Any], way: str, spark: SparkSession, tmp_path: Path, web: Any
) -> None:
    runner = Runner(case, spark, tmp_path, web)
    for number, turn in enumerate(case["rounds"]):
        before = runner.dataset.head()
        expect = turn["expect"]
        if (case["id"], number) in EQUAL_BYTES:
            expect = {"outcome": "UpToDate", "blocks": []}
        if expect["outcome"] == "Error":
            kind = expect["error"]["kind"]
            with pytest.raises(NodeError) as caught:
                runner.play(turn)
            if kind == "BadInput":
                assert isinstance(caught.value, BadInput)
            else:
                assert caught.value.code in CODES.get(kind, (kind,))
            assert expect["error"].get("contains", "") in str(caught.value)
        else:
            runner.play(turn)
        check(runner, before, expect)
        if runner.receipt is not None and expect["outcome"] != "Error":
            wanted = {"Updated": "updated", "UpToDate": "up-to-date"}[expect["outcome"]]
            assert runner.receipt.outcome == wanted
            assert runner.receipt.no_source_defined is expect.get("no_source_defined", False)
    assert {each.spark_jobs for each in runner.ran if each is not None} <= JOBS[way]


def check(runner: Runner, before: Multihash, expect: dict[str, Any]) -> None:
    blocks = runner.dataset.blocks(after=before)
    assert [type(block.event).__name__ for block in blocks] == expect["blocks"]
    events = {type(block.event): block.event for block in blocks}
    if "schema" in expect:
        from odf_protocol.columns.arrow_schema import to_arrow

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
    if "linked_objects" in expect:
        told = event.extra.value.get(SUMMARY_KEY) if event.extra else None
        assert told == expect["linked_objects"]
