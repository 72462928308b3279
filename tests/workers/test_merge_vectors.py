"""Every merge strategy gives the rows of the known answers, disputed ones as we want them, in one
partition and in many."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from refusals import refusing
from tests.workers import tables
from tests.workers.histories import history_of_rows
from tests.workers.partitions.many import Many

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY
from odf_protocol.codec.manifests import from_data
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddPushSource, DatasetKind, Seed, SetVocab
from odf_protocol.metadata.sources import MergeStrategy, ReadStepNdJson
from odf_protocol.sources.source_options import RetractionRule
from odf_workers.merge.history import Findings, HistoryFiles, HistoryRange, judged, key_ranges
from odf_workers.merge.strategies import MERGE, check_batch, merging_of, sort_indices
from odf_workers.partitions.port import Here, Way
from odf_workers.plan.ingest import IngestPlan, plan_source
from odf_workers.readers.formats.read import SplitRead
from odf_workers.slices.costs import SliceCut
from odf_workers.slices.schema import POSITION, Limits
from odf_workers.stages.pipeline import by_key, merge_rows
from odf_workers.stages.read import PostRead

RANGES = 3
NOW = Instant.parse("2050-01-01T12:00:00Z")


def texts_of(given: dict[str, Any]) -> set[str]:
    """Columns that hold text in either table; the format declares no types."""
    return {
        name
        for table in (given.get("prev"), given.get("new"))
        for row in (table["rows"] if table else ())
        for name, value in zip(table["columns"], row, strict=True)
        if isinstance(value, str)
    }


def table_of(table: dict[str, Any], texts: set[str], *, numbered: bool) -> pa.Table:
    types = {"op": pa.int32(), **dict.fromkeys(texts, pa.string())}
    columns = {
        name: pa.array([row[at] for row in table["rows"]], types.get(name, pa.int64()))
        for at, name in enumerate(table["columns"])
    }
    if numbered:
        columns[POSITION] = pa.array(range(len(table["rows"])), pa.int64())
    return pa.table(columns)


def ways() -> list[Any]:
    """Each case in one partition and in many; some on a real Spark."""
    found = []
    for number, case in enumerate(tables.cases("merge")):
        if case["given"]["strategy"]["kind"] == "Append":  # its rows meet no others
            found.append(pytest.param(case, "process", id=f"{case['id']}-process"))
            continue
        found += [
            pytest.param(case, name, id=f"{case['id']}-{name}") for name in ("process", "many")
        ]
        if number % 6 == 0:
            found.append(
                pytest.param(case, "spark", id=f"{case['id']}-spark", marks=pytest.mark.spark)
            )
    return found


def way_of(name: str, request: pytest.FixtureRequest) -> Way:
    if name == "process":
        return Here()
    if name == "many":
        return Many(RANGES, random.Random(1))
    from odf_workers.partitions.on_spark import OnSpark

    return OnSpark(request.getfixturevalue("spark"))


@pytest.fixture(autouse=True)
def sent_with_tasks() -> Iterator[None]:
    """Executors get the functions of this file: they cannot import it."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


REFUSED = {"merge-026"}
"""Cases that this node refuses and the reference takes: a key twice in a first snapshot, of which
one row would stand for ever."""


@pytest.mark.parametrize(("case", "name"), ways())
def test_a_batch_merges_as_the_answer_says(
    case: dict[str, Any], name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    way = way_of(name, request)
    if "error" in case["expect"] or case["id"] in REFUSED:
        with refusing("CannotMerge"):
            check(case, way, tmp_path)
        return
    check(case, way, tmp_path)


def check(case: dict[str, Any], way: Way, folder: Path) -> None:
    given = case["given"]
    strategy: MergeStrategy = from_data(given["strategy"], MergeStrategy)
    plan = plan_of(strategy, given["vocab"]["event_time"])
    merging = merging_of(strategy, plan.vocab)
    texts, history, prev = texts_of(given), None, None
    if given["prev"]:
        prev = table_of(given["prev"], texts, numbered=False)
        if MERGE[type(strategy)].reads_history:
            history = history_of_rows([prev], strategy, merging, folder)
    if given["operation"] == "project":
        assert prev is not None
        assert history is not None
        ranges = 1 if way.width == 1 else RANGES
        parts = [replace(history, low=low, high=high) for low, high in key_ranges(ranges)]
        table = pa.concat_tables([part.take(part.standing(), prev.column_names) for part in parts])
    else:
        new = table_of(given["new"], texts, numbered=True)
        check_batch(strategy, merging, new.schema)
        table = merged(way, plan, new, history, folder)
    expect = case["expect"]["table"]
    rows = tables.rows_of(table.select(expect["columns"]))
    wanted = expect["rows"]
    if case["expect"].get("ordered") is False:
        rows, wanted = sorted(rows, key=str), sorted(wanted, key=str)
    assert rows == wanted
    assert [n for n in table.column_names if not n.startswith("odf ")] == expect["columns"]


def plan_of(strategy: MergeStrategy, event_time: str) -> IngestPlan:
    source = AddPushSource(source_name="default", read=ReadStepNdJson(), merge=strategy)
    seed = Seed(dataset_id=DatasetId(bytes(32)), dataset_kind=DatasetKind.Root)
    events = [seed, SetVocab(event_time_column=event_time), source]
    _, state = author(EMPTY, events, system_time=NOW)
    return plan_source(state, source, read=source.read, now=NOW, source_event_time=Instant(0))


def merged(
    way: Way, plan: IngestPlan, new: pa.Table, history: HistoryRange | None, folder: Path
) -> pa.Table:
    """The rows of the stage that merges, in their final order. Where partitions are many, each row
    was read by a task of its own."""
    ranges, each = (1, new.num_rows) if way.width == 1 else (RANGES, 1)
    post = PostRead(
        plan=plan,
        split=SplitRead(step=plan.read, limits=Limits()),
        cut=SliceCut(),
        history=None if history is None else files_of(history, way, folder),
    )
    merging = merging_of(plan.merge, plan.vocab)
    if not merging.key:
        rows = MERGE[type(plan.merge)].merge(merging, new, history).rows
        return rows.take(sort_indices(rows, post.order))
    parts = [new.slice(at, each) for at in range(0, new.num_rows, each)] if each else [new]
    read = way.read(parts, batches_of)
    read.facts()
    work = partial(merge_rows, post, new.schema, ranges, None)
    route = partial(by_key, merging.key, [0] * len(parts), ranges)
    stage = read.then(ranges, route, work)
    facts = [each for told in stage.facts() for each in told]
    findings = Findings.joined([each.findings for each in facts])
    judged(findings, RetractionRule.WARN, lambda at: at + 1)
    (found,) = stage.then(1, all_to_one, gathered).facts()
    way.close()
    rows = found[0] if found else merged_schema(plan, new).empty_table()
    return rows.take(sort_indices(rows, post.order))


def files_of(history: HistoryRange, way: Way, folder: Path) -> HistoryFiles:
    infos = tuple(segment.info for segment in history.state.segments)
    return HistoryFiles(
        files=tuple(way.file(folder / info.name) for info in infos),
        infos=infos,
        schema=history.state.schema,
        spec=history.spec,
    )


def batches_of(rows: pa.Table) -> Iterator[Any]:
    yield from rows.to_batches()


def all_to_one(_: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        yield 0, batch


def gathered(_: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    every = list(batches)
    if every:
        yield pa.Table.from_batches(every)


def merged_schema(plan: IngestPlan, new: pa.Table) -> pa.Schema:
    """Columns of a result without rows."""
    op = plan.vocab.operation_type_column
    return pa.schema([pa.field(op, pa.int32()), *(f for f in new.schema if f.name != op)])
