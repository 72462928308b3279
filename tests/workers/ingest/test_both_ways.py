"""Random histories are the same in one partition and in many, and as the rules of merges say.

`ODF_TEST_HISTORIES` is how many are played, `ODF_TEST_SPARK_HISTORIES` how many of them on a real
Spark.
"""

from __future__ import annotations

import io
import math
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.workers import datasets
from tests.workers import test_merge_rules as rules
from tests.workers.datasets import bench_without_engine, created, ndjson, upload
from tests.workers.partitions.many import Many
from throwaway import throwaway_stores, throwing_away

from odf_protocol.chain.rules import author
from odf_protocol.columns.arrow_schema import from_arrow, to_arrow
from odf_protocol.errors import NodeError
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddPushSource, SetDataSchema
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest import run
from odf_workers.jobs.work.context import WorkerContext
from odf_workers.merge.strategies import MERGE
from odf_workers.partitions.port import Here, Way
from odf_workers.readers.formats import splits
from odf_workers.slices.costs import SliceCut
from odf_workers.stages import pipeline
from odf_workers.stages.facts import FactLayout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES = int(os.environ.get("ODF_TEST_HISTORIES", "40"))
ON_SPARK = int(os.environ.get("ODF_TEST_SPARK_HISTORIES", "5"))
pytestmark = pytest.mark.timeout(900 + 4 * max(HISTORIES, ON_SPARK))
NOW = Instant.parse("2050-01-01T12:00:00Z")
MILLIS = pa.timestamp("ms", "UTC")
NEST = pa.struct([pa.field("a", pa.float64()), pa.field("b", pa.list_(pa.string()))])
DATA = {"event_time": MILLIS, "r": pa.string(), "k0": pa.float64(), "n": pa.int64(), "v": NEST}
EXTRA = "more"
Rule = Callable[[rules.Rows, rules.Rows], rules.Rows]
STRATEGIES: list[tuple[MergeStrategy, Rule]] = [
    (MergeStrategyAppend(), rules.appended),
    (MergeStrategyLedger(primary_key=rules.KEY), rules.ledger),
    (MergeStrategySnapshot(primary_key=rules.KEY), rules.snapshot),
    (MergeStrategyUpsertStream(primary_key=rules.KEY), rules.upsert),
    (MergeStrategyChangelogStream(primary_key=rules.KEY), rules.changelog),
]
FLOATS = [None, 0.0, -0.0, math.nan, math.inf, 1.5]


@dataclass(frozen=True)
class Post:
    source: str
    rows: list[dict[str, Any]]
    body: bytes
    grows: bool = False
    """Whether the dataset gets a column of its own before."""


@dataclass(frozen=True)
class History:
    merge: MergeStrategy
    rule: Rule
    posts: list[Post]
    cut: SliceCut
    requires: bool = False
    """Whether the dataset requires a value of `n`, as its first batch does; later ones may not."""
    is_cut: bool = True
    """Whether batches are cut wherever possible; otherwise each is one task where many may run."""


def history_made(seed: int) -> History:
    chance = random.Random(seed)
    merge, rule = STRATEGIES[seed % len(STRATEGIES)]
    keys = chance.choice([3, 12, 40])
    posts: list[Post] = []
    grown = False
    requires, is_cut = chance.random() < 0.3, chance.random() < 0.75
    for number in range(chance.randrange(2, 6)):
        source = chance.choice(["table", "lines"]) if number and not grown else "table"
        grows = bool(number) and not grown and chance.random() < 0.2
        if grows:
            source, grown = "table", True
        count = chance.choice([0, 1, 7, 40]) if number else 20
        rows = rows_made(chance, merge, count, keys, is_first=not number)
        if requires and (not number or chance.random() < 0.8):
            for row in rows:
                row["n"] = row["n"] or 3
        if source == "lines":
            for row in rows:
                row.update(finite(row))
            rows = distinct(merge, rows)
            body = ndjson([{**row, "event_time": text_of(row["event_time"])} for row in rows])
        else:
            if grown:
                for row in rows:
                    row[EXTRA] = chance.choice([None, "x", "y"])
            optional = not requires or (bool(number) and chance.random() < 0.5)
            if any(row["n"] is None for row in rows):
                optional = True
            schema = schema_of(merge, grown=grown, optional=optional)
            body = table_of(schema, rows, chance.choice([1, 5, 100]))
        posts.append(Post(source, rows, body, grows))
    cut = SliceCut(rows=chance.choice([5, 20, 1 << 20]), size=chance.choice([300, 2000, 1 << 28]))
    return History(merge, rule, posts, cut, requires, is_cut)


def rows_made(
    chance: random.Random, merge: MergeStrategy, count: int, keys: int, *, is_first: bool
) -> list[dict[str, Any]]:
    """Rows of a post. The first of a history is not refused: it gives the dataset its schema."""
    codes = [0, 0, 1] if isinstance(merge, MergeStrategyChangelogStream) else [0, 0, 0, 1, None]
    if is_first:
        codes = [0]
    elif chance.random() < 0.05:
        codes = [*codes, 7, 2]
    ascending = chance.random() < 0.3
    rows = []
    for at in range(count):
        second = at if ascending else chance.randrange(50)
        row = {
            "event_time": chance.choice(
                [None, *[datetime(2020, 1, 1, 0, 0, second, tzinfo=UTC)] * 3]
            ),
            "r": chance.choice([None, "", "é", *"ABCDEFGHIJ"]),
            "k0": chance.choice([*FLOATS, *map(float, range(keys))]),
            "n": chance.choice([None, 1, 2]),
            "v": chance.choice([None, nested(chance)]),
        }
        if MERGE[type(merge)].takes_operations:
            row["op"] = chance.choice(codes)
        rows.append(row)
    return distinct(merge, rows) if is_first or chance.random() < 0.95 else rows


def nested(chance: random.Random) -> dict[str, Any]:
    return {"a": chance.choice(FLOATS), "b": chance.choice([None, [], ["x", None]])}


def distinct(merge: MergeStrategy, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that the strategy allows: a snapshot has a key once."""
    if not isinstance(merge, MergeStrategySnapshot):
        return rows
    return list({(row["r"], same(row["k0"])): row for row in rows}.values())


def finite(row: dict[str, Any]) -> dict[str, Any]:
    """What JSON can say."""
    bad = ("nan", "inf")
    v = row["v"]
    return {
        "k0": None if str(row["k0"]) in bad else row["k0"],
        "v": None if v is None else {**v, "a": None if str(v["a"]) in bad else v["a"]},
    }


def text_of(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def schema_of(merge: MergeStrategy, *, grown: bool, optional: bool) -> pa.Schema:
    """Columns of a table; the dataset has an extra one once it has grown."""
    op = {"op": pa.int32()} if MERGE[type(merge)].takes_operations else {}
    schema = pa.schema({**op, **DATA, **({EXTRA: pa.string()} if grown else {})})
    at = schema.get_field_index("n")
    return schema.set(at, schema.field(at).with_nullable(optional))


def table_of(schema: pa.Schema, rows: list[dict[str, Any]], group: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, row_group_size=group)
    return sink.getvalue()


def sources(merge: MergeStrategy) -> tuple[AddPushSource, AddPushSource]:
    lines = ReadStepNdJson(schema=from_arrow(schema_of(merge, grown=False, optional=True)))
    return (
        AddPushSource(source_name="table", read=ReadStepParquet(), merge=merge),
        AddPushSource(source_name="lines", read=lines, merge=merge),
    )


def grow(dataset: Dataset) -> None:
    state = dataset.state()
    assert state.data_schema is not None
    schema = to_arrow(state.data_schema).append(pa.field(EXTRA, pa.string()))
    blocks, _ = author(state, [SetDataSchema(schema=from_arrow(schema))], system_time=NOW)
    dataset.commit(blocks, expected=state.head)


def played(history: History, bench: WorkerContext, stores: Stores) -> list[Any]:
    """Of each post its receipt, or what it was refused for, and the rows that it came to."""
    first, second = sources(history.merge)
    dataset = created(stores, source=first, more=(second,))
    came: list[Any] = []
    for post in history.posts:
        if post.grows:
            grow(dataset)
        payload = msgspec.structs.replace(
            upload(stores, dataset, post.body), source_name=post.source
        )
        try:
            receipt = run.run_ingest(dataset, payload, bench, now=NOW)
        except NodeError as bad:
            came.append((bad.code, bad.message, bad.facts))
            continue
        rows = []
        for each in receipt.slices:
            key = Multihash.parse(each.physical_hash)
            with dataset.open_object(ObjectKind.DATA, key) as stream:
                rows += pq.read_table(stream).to_pylist()
        came.append((result_of(receipt), rows))
    return came


def result_of(receipt: Any) -> dict[str, Any]:
    """A receipt without where the stages ran."""
    told = msgspec.to_builtins(receipt)
    del told["ran"]
    return dict(told)


def same(value: Any) -> Any:
    """A value as it is compared."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case dict():
            return str({name: same(each) for name, each in value.items()})
        case _:
            return value


def plain(row: dict[str, Any]) -> rules.Row:
    """A row for the rules in plain Python: what is compared beside the time is one value."""
    return {
        "op": row.get("op", 0),
        "at": None if row["event_time"] is None else row["event_time"].timestamp(),
        "r": row["r"],
        "k0": same(row["k0"]),
        "n": row["n"],
        "v": str([same(row.get(name)) for name in ("n", "v", EXTRA)]),
    }


def check_rules(history: History, came: list[Any]) -> int:
    """Compare every post with the rules; how many were not refused."""
    prev: rules.Rows = []
    taken = 0
    fallback = NOW.millis / 1000
    for number, (post, result) in enumerate(zip(history.posts, came, strict=True)):
        new = [plain(row) for row in post.rows]
        wanted = history.rule(prev, new)
        is_refused = len(result) == 3
        lacks = history.requires and any(row["n"] is None for row in wanted)
        assert is_refused == (lacks or is_wrong(history.merge, prev, new)), f"post {number}"
        if is_refused:
            continue
        found = [plain(row) for row in result[1]]
        wanted = [{**row, "at": row["at"] or fallback, "op": row["op"] or 0} for row in wanted]
        assert rules.told(found) == rules.told(wanted)
        prev += found
        taken += 1
    return taken


def is_wrong(merge: MergeStrategy, prev: rules.Rows, new: rules.Rows) -> bool:
    """Whether the strategy refuses these rows."""
    match merge:
        case MergeStrategySnapshot():
            return len({rules.key_of(row) for row in new}) < len(new)
        case MergeStrategyChangelogStream():
            stood = rules.state(prev)
            rows_of_keys: dict[Any, rules.Rows] = {}
            for row in new:
                rows_of_keys.setdefault(rules.key_of(row), []).append(row)
            return any(breaks(stood.get(key), rows) for key, rows in rows_of_keys.items())
        case _:
            return False


def breaks(standing: rules.Row | None, rows: rules.Rows) -> bool:
    """Whether rows of one key are no continuation of the row that stands: a code is unknown, half
    of a correction is missing, or a row takes back another one than stands."""
    codes = [row["op"] for row in rows]
    pairs = zip(codes, [*codes[1:], None], strict=True)
    if not set(codes) <= {0, 1, 2, 3} or any((one == 2) != (two == 3) for one, two in pairs):
        return True
    if codes[0] == 3:
        return True
    for row in rows:
        if row["op"] in (1, 2) and (standing is None or rules.differs(standing, row)):
            return True
        standing = None if row["op"] == 1 else {**row, "at": row["at"] or NOW.millis / 1000}
    return False


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are scanned in small pieces; equal blocks on both sides have equal times."""
    monkeypatch.setattr(splits, "SCAN_BYTES", 64)
    monkeypatch.setattr(datasets, "now", lambda: NOW)


def agree(seed: int, one: list[Any], other: list[Any]) -> None:
    for number, (left, right) in enumerate(zip(one, other, strict=True)):
        assert str(left) == str(right), f"post {number} of history {seed}"


def on(way: Way, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "way_of", lambda *_: way)
    monkeypatch.setattr(pipeline, "SMALLEST_PARTITION_BYTES", 1 if history.is_cut else 1 << 20)
    monkeypatch.setattr(splits, "SMALLEST_SPLIT_BYTES", 300 if history.is_cut else 1 << 20)


def tasks_counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Batches of every task that runs all stages, from now on."""
    counted: list[int] = []
    run_tasks = run.run_tasks

    def counting(way: Way, batches: Any) -> Any:
        counted.append(len(batches))
        return run_tasks(way, batches)

    monkeypatch.setattr(run, "run_tasks", counting)
    return counted


def slices_from_ranges(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The slices whose writers left out rows of other slices, from now on."""
    shared: list[int] = []
    taken = FactLayout.taken

    def counted(self: FactLayout, slice_: int, rows: pa.Table) -> tuple[int, pa.Table]:
        before, found = taken(self, slice_, rows)
        if found.num_rows < rows.num_rows:
            shared.append(slice_)
        return before, found

    monkeypatch.setattr(FactLayout, "taken", counted)
    return shared


def test_random_histories_are_the_same_in_many_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, most = 0, 0
    refused: Counter[str] = Counter()
    sources_taken: Counter[str] = Counter()
    shared, tasks = slices_from_ranges(monkeypatch), tasks_counted(monkeypatch)
    for seed in range(HISTORIES):
        history = history_made(seed)
        chance = random.Random(seed)
        many = Many(chance.randrange(1, 6), chance)
        results = []
        for number, way in enumerate((Here(), many)):
            on(way, history, monkeypatch)
            with throwing_away():
                stores = throwaway_stores()
                folder = tmp_path / f"{seed}-{number}"
                folder.mkdir()
                bench = bench_without_engine(stores, folder, cut=history.cut)
                results.append(played(history, bench, stores))
        agree(seed, *results)
        compared += check_rules(history, results[0])
        refused.update(each[0] for each in results[0] if len(each) == 3)
        sources_taken.update(
            post.source
            for post, each in zip(history.posts, results[0], strict=True)
            if len(each) == 2
        )
        most = max(most, *many.partitions)
    assert compared > 2 * HISTORIES
    assert refused.keys() == {"CannotMerge", "NotWhatStands", "UnexpectedNulls"}
    assert refused.total() < 1.1 * HISTORIES, "about one batch of a history is refused"
    assert min(sources_taken.values()) > HISTORIES / 4, "both sources give rows"
    assert most > 5, "the partitions were many"
    assert len(tasks) > HISTORIES / 4, "small batches were one task"
    assert len(shared) > HISTORIES / 4, "slices were written from ranges that others have rows of"


def test_partitions_one_after_the_other_are_not_those_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Spark of one core has its files handed over, and cuts what is large."""
    ledger = 1
    history = replace(history_made(ledger), is_cut=True)
    many = Many(1, random.Random(ledger))
    files, parts = MagicMock(wraps=many.file), MagicMock(wraps=many.spans)
    monkeypatch.setattr(many, "file", files)
    monkeypatch.setattr(many, "spans", parts)
    on(many, history, monkeypatch)
    stores = throwaway_stores()
    bench = bench_without_engine(stores, tmp_path, cut=history.cut)
    played(history, bench, stores)
    assert {each.args[0].parent.name for each in files.mock_calls} == {"merge-state"}
    assert parts.call_count > 1
    assert max(many.partitions) > 1


@pytest.mark.spark
def test_random_histories_are_the_same_on_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_workers.partitions.on_spark import OnSpark

    monkeypatch.setattr(OnSpark, "partition_bytes", 1000)

    for seed in range(ON_SPARK):
        history = history_made(seed)
        results = []
        ways: tuple[Way, Way] = (Here(), OnSpark(spark))
        for number, way in enumerate(ways):
            on(way, history, monkeypatch)
            stores = throwaway_stores()
            folder = tmp_path / f"{seed}-{number}"
            folder.mkdir()
            bench = bench_without_engine(stores, folder, cut=history.cut)
            results.append(played(history, bench, stores))
        agree(seed, *results)
