"""What a poll promises: one commit per fetch, no row twice, no snapshot swallowed by accident."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace as replace_fields
from refusals import refusing
from tests.workers.datasets import bench_without_engine, created, ingest_options, now, upload
from throwaway import throwaway_stores
from web_server import Answer, Asked, web_server

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    MetadataEvent,
    Seed,
    SetInfo,
    SetPollingSource,
    SourceState,
)
from odf_protocol.metadata.schema import DataField, DataSchema, DataTypeInt64
from odf_protocol.metadata.sources import (
    FetchStep,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategySnapshot,
    MqttTopicSubscription,
    PrepStepPipe,
    ReadStep,
    ReadStepNdJson,
)
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import poll_job
from odf_storage.datasets.job_payloads.ingest_job import RanReceipt
from odf_storage.datasets.job_payloads.poll_job import PollPayload, PollReceipt
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import set_watermark
from odf_storage.stores.ports.values import JobSpec, Succeeded
from odf_workers.jobs.ingest.ways import SMALL
from odf_workers.jobs.sources.poll import added_up
from odf_workers.plan.poll import NothingToPoll, PollPlan, plan_poll

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.jobs.work.context import WorkerContext

NUMBERS = DataSchema(fields=(DataField(name="n", type=DataTypeInt64()),))
ROWS = b'{"n": 1}\n{"n": 2}\n{"n": 3}\n'


def source(
    fetch: FetchStep, merge: MergeStrategy | None = None, read: ReadStep | None = None
) -> SetPollingSource:
    return SetPollingSource(
        fetch=fetch, read=read or ReadStepNdJson(), merge=merge or MergeStrategyAppend()
    )


def polled(stores: Stores, fetch: FetchStep, *more: Any) -> Dataset:
    """A root dataset with a polling source and nothing else."""
    dataset = created(stores, source=source(fetch, *more))
    assert dataset.state().polling_source is not None
    return dataset


def chain(*events: MetadataEvent) -> ChainState:
    seed = Seed(dataset_id=DatasetId(bytes(32)), dataset_kind=DatasetKind.Root)
    return author(EMPTY, [seed, *events], system_time=now())[1]


def data_block(name: str | None) -> AddData:
    state = SourceState(source_name=name, kind="odf/etag", value="1") if name else None
    return AddData(new_watermark=Instant(0), new_source_state=state)


WEB = FetchStepUrl(url="http://srv.test/")
MQTT = FetchStepMqtt(host="h", port=1, topics=(MqttTopicSubscription(path="t"),))


def test_a_dataset_without_a_polling_source_is_not_polled() -> None:
    assert plan_poll(chain()) == NothingToPoll(no_source_defined=True)
    disabled = chain(source(WEB), DisablePollingSource())
    assert plan_poll(disabled) == NothingToPoll(no_source_defined=True)


def test_a_poll_starts_where_the_source_left_off() -> None:
    plan = plan_poll(chain(source(WEB), data_block("default")))
    assert isinstance(plan, PollPlan)
    assert plan.state == SourceState(source_name="default", kind="odf/etag", value="1")
    foreign = plan_poll(chain(source(WEB), data_block("other")))
    assert isinstance(foreign, PollPlan)
    assert foreign.state is None


def test_a_command_that_may_not_run_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    from odf_workers.jobs.sources.poll import run_poll

    stores = throwaway_stores()
    piped = replace_fields(source(WEB), prepare=(PrepStepPipe(command=("sort",)),))
    dataset = created(stores, source=piped)
    bench = bench_without_engine(stores, tmp_path)  # nor may it fetch from anywhere
    with refusing("PipeRefused") as refused:
        run_poll(dataset, PollPayload(), bench, now=now())
    assert refused.value.facts["setting"] == "ODF_WORKER_PIPE_COMMANDS"


def test_a_watermark_set_by_hand_is_no_work_of_a_poll(tmp_path: Path) -> None:
    from odf_workers.fetch.values import FetchRules
    from odf_workers.jobs.work.context import PollOptions

    stores, path = throwaway_stores(), tmp_path / "rows.ndjson"
    dataset = polled(stores, FetchStepUrl(url=f"file://{path}"))
    polls = PollOptions(fetch=FetchRules(roots=(tmp_path,)))
    bench = replace(bench_without_engine(stores, tmp_path), polls=polls)

    def change(second: int) -> None:
        path.write_bytes(ROWS.replace(b"1", b"%d" % (10 + second)))
        os.utime(path, (second, second))

    def mark(when: str) -> None:
        set_watermark(stores, dataset.entry, Instant.parse(when), now=now())

    change(1)
    assert poll(dataset, bench).rows_added == 3
    change(2)
    when = now()  # the worker dies before it fetches
    mark("2100-01-01T00:00:00Z")
    assert poll(dataset, bench, when=when, repeated=True).rows_added == 3
    change(3)
    when = now()  # the worker dies after its commit
    mark("2101-01-01T00:00:00Z")
    done = poll(dataset, bench, when=when)
    mark("2102-01-01T00:00:00Z")
    told = poll(dataset, bench, when=when, repeated=True)
    assert (told.fetches, told.head, told.offset_start, told.offset_end) == (1, done.head, 6, 8)


@pytest.mark.spark
def test_a_source_that_tells_nothing_is_polled_and_gives_equal_bytes_once(
    stores: Stores, bench: WorkerContext
) -> None:
    with web_server(lambda _: Answer(200, {}, ROWS)) as server:
        dataset = polled(stores, FetchStepUrl(url=f"http://srv.test:{server.port}/"))
        assert poll(dataset, bench).rows_added == 3
        again = poll(dataset, bench)
        assert (again.outcome, again.uncacheable) == ("up-to-date", False)
        forced = PollPayload(fetch_uncacheable=True)
        assert poll(dataset, bench, forced).outcome == "up-to-date"
        assert len(server.asked) == 3
        server.answer = lambda _: Answer(200, {}, ROWS.replace(b"1", b"7"))
        when = now()
        assert poll(dataset, bench, forced, when=when).rows_added == 3
        # The worker that did this was killed before it could say so.
        told = poll(dataset, bench, forced, when=when, repeated=True)
        assert (told.offset_start, told.offset_end) == (3, 5)
        exhaust = PollPayload(fetch_uncacheable=True, exhaust_sources=True)
        poll(dataset, bench, exhaust, when=when, repeated=True)
        assert dataset.state().last_offset == 5
    with_mqtt = author(dataset.state(), [source(MQTT)], system_time=now())[1]
    assert isinstance(plan_poll(with_mqtt), PollPlan)


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(spark: SparkSession, stores: Stores, tmp_path: Path) -> Iterator[WorkerContext]:
    from odf_workers.engines.spark_engine.engine import SparkEngine
    from odf_workers.fetch.values import FetchRules
    from odf_workers.jobs.work.context import Engines, PollOptions, WorkerContext

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    yield WorkerContext(
        engines=Engines(session=spark, first=SparkEngine(spark)),
        objects=stores.objects,
        scratch=scratch,
        ingest=ingest_options(tmp_path),
        polls=PollOptions(
            fetch=FetchRules(
                networks=("127.0.0.0/8",),
                roots=(tmp_path,),
                resolve=lambda host, port: ["127.0.0.1"],
            )
        ),
    )
    assert list(scratch.iterdir()) == []


def poll(
    dataset: Dataset,
    bench: WorkerContext,
    payload: PollPayload = PollPayload(),
    *,
    when: Instant | None = None,
    repeated: bool = False,
) -> PollReceipt:
    from odf_workers.jobs.sources.poll import run_poll

    return run_poll(dataset, payload, bench, now=when or now(), repeated=repeated)


@pytest.mark.spark
def test_files_are_taken_one_by_one_until_the_source_is_exhausted(
    stores: Stores, bench: WorkerContext, tmp_path: Path
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.ndjson").write_bytes(ROWS)
    dataset = polled(stores, FetchStepFilesGlob(path=f"{tmp_path}/*.ndjson"))
    first = poll(dataset, bench)
    assert (first.rows_added, first.has_more, first.fetches) == (3, True, 1)
    rest = poll(dataset, bench, PollPayload(exhaust_sources=True))
    assert (rest.rows_added, rest.has_more, rest.fetches) == (6, False, 2)
    assert (rest.offset_start, rest.offset_end) == (3, 8)
    assert rest.prev_head == first.head
    assert len(rest.blocks) == 2
    assert rest.ran is not None
    assert (rest.ran.bytes, rest.ran.splits, rest.ran.because) == (2 * len(ROWS), 2, SMALL)
    assert poll(dataset, bench).outcome == "up-to-date"


@pytest.mark.spark
def test_a_bad_file_keeps_what_was_committed_before_it(
    stores: Stores, bench: WorkerContext, tmp_path: Path
) -> None:
    (tmp_path / "a.ndjson").write_bytes(ROWS)
    (tmp_path / "b.ndjson").write_bytes(b"garbage")
    dataset = polled(stores, FetchStepFilesGlob(path=f"{tmp_path}/*.ndjson"))
    with pytest.raises(NodeError) as caught:
        poll(dataset, bench, PollPayload(exhaust_sources=True))
    assert caught.value.facts["fetchesCommitted"] == 1
    state = dataset.state()
    assert state.last_offset == 2
    assert state.last_source_state is not None
    assert state.last_source_state.value == "a.ndjson"
    (tmp_path / "b.ndjson").write_bytes(ROWS)
    assert poll(dataset, bench).rows_added == 3


@pytest.mark.spark
def test_a_snapshot_that_shrinks_too_much_stops_the_poll(
    stores: Stores, bench: WorkerContext, tmp_path: Path
) -> None:

    path = tmp_path / "rows.ndjson"

    def write(count: int, second: int) -> None:
        path.write_text("".join(f'{{"n": {n}}}\n' for n in range(count)))
        os.utime(path, (second, second))

    dataset = polled(
        stores,
        FetchStepUrl(url=f"file://{path}"),
        MergeStrategySnapshot(primary_key=("n",)),
        ReadStepNdJson(schema=NUMBERS),
    )
    write(30, 1)
    assert poll(dataset, bench).rows_added == 30
    head = dataset.head()
    write(14, 2)
    with refusing("RowsVanished", match="16 of 30 rows"):
        poll(dataset, bench)
    assert dataset.head() == head
    assert poll(dataset, bench, PollPayload(max_vanish_percent=60)).rows_retracted == 16
    write(5, 3)
    with refusing("RowsVanished", match="9 of 14 rows"):
        poll(dataset, bench, PollPayload(max_vanish_percent=0))
    assert poll(dataset, bench).rows_retracted == 9
    write(0, 4)
    with refusing("RowsVanished", match="5 of 5 rows"):
        poll(dataset, bench)
    free = replace(bench, polls=replace(bench.polls, max_vanish_percent=100))
    assert poll(dataset, free).rows_retracted == 5


@pytest.mark.spark
def test_bytes_are_fetched_once_when_another_writer_was_first(
    stores: Stores, bench: WorkerContext
) -> None:
    datasets: list[Dataset] = []

    def answer(_: Asked) -> Answer:
        dataset = datasets[0]
        state = dataset.state()
        assert state.head is not None
        info = SetInfo(description=f"after {state.num_blocks}")
        dataset.commit(author(state, [info], system_time=now())[0], expected=state.head)
        return Answer(200, {"ETag": '"1"'}, ROWS)

    with web_server(answer) as server:
        datasets.append(polled(stores, FetchStepUrl(url=f"http://srv.test:{server.port}/")))
        assert poll(datasets[0], bench).rows_added == 3
        assert len(server.asked) == 1
    kinds = [type(block.event).__name__ for block in datasets[0].blocks()]
    assert kinds[-3:] == ["SetInfo", "SetDataSchema", "AddData"]


@pytest.mark.spark
def test_pushes_carry_over_where_a_polled_source_left_off(
    stores: Stores, bench: WorkerContext
) -> None:
    from odf_workers.jobs.ingest.run import run_ingest

    with web_server(lambda _: Answer(200, {"ETag": '"1"'}, ROWS)) as server:
        polling = source(FetchStepUrl(url=f"http://srv.test:{server.port}/"))
        dataset = created(stores, source=polling)
        poll(dataset, bench)
    pushing = AddPushSource(
        source_name="default", read=ReadStepNdJson(), merge=MergeStrategyAppend()
    )
    state = dataset.state()
    blocks, _ = author(state, [DisablePollingSource(), pushing], system_time=now())
    assert state.head is not None
    dataset.commit(blocks, expected=state.head)
    run_ingest(dataset, upload(stores, dataset, ROWS), bench, now=now())
    after = dataset.state()
    assert after.last_offset == 5
    assert after.last_source_state == state.last_source_state


@pytest.mark.spark
def test_a_worker_runs_poll_jobs(stores: Stores, bench: WorkerContext, tmp_path: Path) -> None:
    from datetime import timedelta

    from odf_workers.program.loop import Worker

    (tmp_path / "rows.ndjson").write_bytes(ROWS)
    dataset = polled(stores, FetchStepUrl(url=f"file://{tmp_path}/rows.ndjson"))
    payload = poll_job.to_json(PollPayload())
    job = stores.jobs.submit(JobSpec(poll_job.KIND, dataset.id, payload, lock=str(dataset.id)))
    worker = Worker(
        stores=stores, context=bench, name="w", lease=timedelta(seconds=30), longest_pause_s=0.1
    )
    worker.work(once=True)
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Succeeded)
    receipt = poll_job.receipt_of(outcome.result)
    assert (receipt.rows_added, receipt.fetches) == (3, 1)


def test_receipts_of_several_fetches_add_up() -> None:
    def one(at: int, **more: Any) -> PollReceipt:
        known = {"outcome": "updated", "prev_head": f"h{at}", "head": f"h{at + 1}"}
        return PollReceipt(**{**known, "fetches": 1, "rows_added": at, **more})

    done = one(1, offset_start=0, offset_end=0, watermark="w", has_more=True, blocks=("a",))
    last = one(2, offset_start=1, offset_end=2, blocks=("b",))
    total = added_up(done, last)
    assert (total.prev_head, total.head, total.blocks) == ("h1", "h3", ("a", "b"))
    assert (total.offset_start, total.offset_end, total.rows_added) == (0, 2, 3)
    assert (total.watermark, total.has_more, total.fetches) == ("w", False, 2)
    nothing = one(3, outcome="up-to-date", prev_head="h3", head="h3", fetches=0, uncacheable=True)
    assert added_up(total, nothing).outcome == "updated"
    assert not added_up(total, nothing).uncacheable


def test_where_several_fetches_ran_is_added_up_and_every_reason_listed_once() -> None:
    def ran(way: Any, at: int, **more: Any) -> PollReceipt:
        figures = {"bytes": at, "splits": at, "micro_batch_bytes": 8, **more}
        where = RanReceipt(way=way, because=f"{way}, since it must", **figures)
        return PollReceipt(outcome="updated", prev_head="a", head="b", fetches=1, ran=where)

    used = {"spark_jobs": 2, "tasks": 3, "shuffle_bytes": 4, "spill_bytes": 5}
    found = ran("process", 1, preprocessed_bytes=7)
    found = added_up(found, ran("spark", 20, **used, one_split_because="it must", spark_page="p"))
    found = added_up(found, ran("spark", 300, **used, one_split_because="it must"))
    found = added_up(found, ran("process", 4000))
    nothing = PollReceipt(outcome="up-to-date", prev_head="b", head="b")
    assert added_up(nothing, found).ran == added_up(found, nothing).ran == found.ran
    assert found.ran == RanReceipt(
        way="spark",
        because="process, since it must; spark, since it must",
        bytes=4321,
        preprocessed_bytes=7,
        micro_batch_bytes=8,
        splits=4321,
        one_split_because="it must",
        spark_jobs=4,
        tasks=6,
        shuffle_bytes=8,
        spill_bytes=10,
        spark_page="p",
    )
