"""Which rows of the inputs a row of a derivative was made from, and the proof: these alone give it.

A query that keeps rows is traced by its engine over the rows that stand as of the block. Any other
query runs over ever fewer rows of what the execution read, until one is left that gives the row.
Both end with a run over the named rows alone, by the code that replays use.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.errors import LimitExceeded
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import ExecuteTransform, HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import read_note
from odf_storage.datasets.job_payloads.why_job import NOT_REPRODUCED, REPRODUCED, UNKNOWN
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.pruning.filters import Filter, MalformedFilter
from odf_storage.datasets.pruning.learned import LearnedBounds
from odf_storage.datasets.read.read import scanning
from odf_storage.datasets.read.rows import Projection, live_facts, takes_back
from odf_storage.datasets.read.scan import Narrowed, narrowed
from odf_storage.datasets.read.view import View
from odf_storage.datasets.verify.source import DatasetSource
from odf_storage.stores.ports.values import ObjectKind

from ...engines.iteration.inputs import holds_state
from ...engines.port.job_listener import Heard
from ...engines.port.port import Engine
from ...engines.port.tracing import Arrival, Condition, Role, Sought, Trace, Witness, rows_like
from ...plan.transform import TransformPlan
from ...slices.schema import Operation
from ..transform.chains import backwards, engine_of, last_data, watermark_of
from ..transform.iteration import execute, request_of, with_later_columns
from ..transform.replay import recorded_plan
from ..transform.result import InputFiles, work_folder
from ..transform.run import input_files
from ..work.context import WorkerContext
from .chosen import Chosen, ChosenFiles, Offsets, within
from .rows import ADDS, TAKES, FoundRow, is_compared

ROW_BY_ROW = "row by row"
Operations = frozenset[Operation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnesses:
    """The rows, by input; `trace` has their inputs by position in `inputs`."""

    inputs: tuple[DatasetId, ...]
    trace: Trace
    verdict: str
    reason: str | None = None
    engine: str
    engine_version: str


def witnesses_of(
    stores: Stores, row: FoundRow, block: HashedBlock, event: ExecuteTransform, bench: WorkerContext
) -> Witnesses:
    """Find the rows from which a row of a derivative was made.

    Raises:
        NotVerifiable, …NotFound: an input is not here, or lacks what was read.
        UnsupportedEngine; InvalidQuery, EngineFailed: the query cannot run here.
        TooManyRows. JobLost, …: errors in `CUT_SHORT`.
    """
    with searching(stores, row, block, event, bench) as search:
        kept = event.new_checkpoint
        state = (
            None
            if kept is None
            else search.files.get(row.dataset, ObjectKind.CHECKPOINT, kept.physical_hash)
        )
        is_stateful = state is not None and holds_state(state)
        return search.by_trace(event) if is_stateful else search.by_halves()


@contextmanager
def searching(
    stores: Stores, row: FoundRow, block: HashedBlock, event: ExecuteTransform, bench: WorkerContext
) -> Iterator[Search]:
    """Yield a search in what the execution of a block read. Raises as `witnesses_of`."""
    before = row.dataset.state(block.prev)
    plan, inputs = recorded_plan(stores, before, block, event, bench.memory.inputs)
    note = read_note(stores.objects, row.dataset.id)
    engine = engine_of(plan.transform, bench.engines.all, note.at(block.sequence_number), note)
    with work_folder(bench.scratch, "why-") as name:
        files = input_files(Path(name), bench.scratch, bench.transforms)
        plan = with_later_columns(
            row.dataset, plan, inputs, engine, files, Path(name) / "columns", bench.job_progress
        )
        yield Search(row, plan, inputs, engine, files, Path(name), bench)
        files.trim()


@dataclass
class Search:
    """The search for the rows of one row."""

    row: FoundRow
    plan: TransformPlan
    inputs: list[Dataset]
    engine: Engine
    files: InputFiles
    folder: Path
    bench: WorkerContext
    _runs: int = field(default=0)
    _last: tuple[dict[int, Offsets], Counter[Operation]] | None = field(default=None)
    """The rows of the last run, and what it gave."""

    # --- row by row -------------------------------------------------------------------------

    def by_halves(self) -> Witnesses:
        """Halve the rows that the execution read until one is left that gives the row."""
        every: dict[int, Offsets] = {
            at: range(item.offset_interval.start, item.offset_interval.end + 1)
            for at, item in enumerate(self.plan.inputs)
            if item.offset_interval is not None
        }
        likely = self._likely()
        if likely and (count := self.count(likely)):
            nth = self.row.rank_among_equals() if count > 1 else 0
            found = self._halved(likely, min(nth, count - 1))
        else:
            found = self._halved(every, self.row.rank_among_equals())
        return self._proved(Trace(forms=(ROW_BY_ROW,)), found)

    def _likely(self) -> dict[int, Offsets]:
        """Return the rows of the same event time, among which the row usually is."""
        found: dict[int, Offsets] = {}
        time = self.row.comparable().get(self.row.view.vocab.event_time_column)
        if time is None:
            return found
        for at, (dataset, item) in enumerate(zip(self.inputs, self.plan.inputs, strict=True)):
            view = self._view(dataset, item.as_of)
            read = {data.physical_hash for data in item.slices}
            view = replace(view, slices=tuple(s for s in view.slices if s[0].physical_hash in read))
            known = [Condition(view.vocab.event_time_column, "eq", time)]
            narrow = _narrowed(view, known, Projection.CHANGELOG, self.bench.memory.bounds)
            if narrow.early is not None and (there := _offsets(narrow)):
                found[at] = there
        return found

    def _halved(self, rows: dict[int, Offsets], nth: int) -> dict[int, Offsets]:
        while sum(map(len, rows.values())) > 1:
            some, others = _halves(rows)
            count = self.count(some)
            rows, nth = (some, nth) if nth < count else (others, nth - count)
        return rows

    def _proved(self, trace: Trace, rows: dict[int, Offsets]) -> Witnesses:
        """Run the query over one row, or over both rows of a correction."""
        own = frozenset({self.row.operation})
        for tried in _with_partner(rows):
            if self.count(tried, own):
                return self._found(trace, tried, REPRODUCED)
        if self.count(rows):
            return self._found(trace, rows, REPRODUCED, "as one half of a correction")
        return self._found(
            trace, {}, UNKNOWN, "no row that was read gives the row alone: the query combines rows"
        )

    def _found(
        self, trace: Trace, rows: Mapping[int, Offsets], verdict: str, reason: str | None = None
    ) -> Witnesses:
        witnesses = tuple(
            Witness(at, int(offset), Role.SOURCE)
            for at, offsets in rows.items()
            for offset in offsets
        )
        return self._answer(replace(trace, witnesses=witnesses), verdict, reason)

    # --- with state -------------------------------------------------------------------------

    def by_trace(self, event: ExecuteTransform) -> Witnesses:
        """Have the engine trace the row over the rows that stand as of the block; a row that takes
        another back, as of the block before. Where footers left out slices and the row is not
        reproduced, they may be wrong, and all slices are read."""
        plan, known = self.plan, self._narrowed()
        found, is_whole = self._traced(event, known, self.bench.memory.bounds)
        if found.verdict == REPRODUCED or is_whole:
            return found
        self.plan = plan
        return self._traced(event, known, None)[0]

    def _traced(
        self,
        event: ExecuteTransform,
        known: Sequence[Sequence[Condition]],
        footers: LearnedBounds | None,
    ) -> tuple[Witnesses, bool]:
        """Return the answer, and whether all slices were looked at."""
        self.plan, chosen, is_whole = self.standing(known, footers)
        number = sum(len(each.offsets) for each in chosen.values())
        if number > self.bench.provenance_rows:
            raise LimitExceeded(
                "TooManyRows",
                f"{number} rows may have a part in the row, more than "
                f"{self.bench.provenance_rows} are not traced",
                limit=self.bench.provenance_rows,
            )
        folder, files = self._place(chosen)
        plan = within(self.plan, chosen)
        request = request_of(self.row.dataset, plan, self.inputs, files, folder, None)
        arrivals = list(self._arrivals(event))[::-1]
        heard = Heard(self.bench.job_progress)
        sought = Sought(row=self.row.table, nth=self.row.rank_among_equals())
        trace = self.engine.trace_transform(request, sought, arrivals, heard)
        return self._judged(trace), is_whole

    def _judged(self, trace: Trace | None) -> Witnesses:
        """Return the answer for a trace: whether its rows alone give the row."""
        if trace is None:
            reason = f"the engine {self.engine.name} keeps rows and cannot say which"
            return self._answer(Trace(), UNKNOWN, reason)
        if not trace.witnesses:
            reason = "the rows that stand do not give the row; late rows decide it, or a reset"
            return self._answer(trace, UNKNOWN, reason)
        rows: dict[int, list[int]] = {}
        for each in trace.witnesses:
            rows.setdefault(each.input, []).append(each.offset)
        picked: dict[int, Offsets] = {at: sorted(set(each)) for at, each in rows.items()}
        is_given = self.count(picked, ADDS)
        verdict = REPRODUCED if is_given else NOT_REPRODUCED
        return self._answer(trace, verdict, None if is_given else "the rows alone give other rows")

    def _narrowed(self) -> Sequence[Sequence[Condition]]:
        """Return what is known of the rows of each input, so that few of them are read."""
        folder, files = self._place({})
        empty = within(replace(self.plan, prev_checkpoint=None), {})
        request = request_of(self.row.dataset, empty, self.inputs, files, folder, None)
        return self.engine.narrow_transform(request, self.row.comparable())

    def standing(
        self, known: Sequence[Sequence[Condition]], footers: LearnedBounds | None
    ) -> tuple[TransformPlan, dict[DatasetId, Chosen], bool]:
        """Return a plan of all that was read so far, the rows of it that stand, and whether they
        were looked for in all slices."""
        items, chosen, is_whole = [], {}, True
        for dataset, item, each in zip(self.inputs, self.plan.inputs, known, strict=True):
            is_new = self.row.adds and item.new_block is not None
            block = item.new_block if is_new else item.prev_block
            if block is None:
                items.append(replace(item, new_offset=None, slices=(), watermarks=()))
                continue
            view = self._view(dataset, block)
            narrow = _narrowed(view, each, Projection.FACTS, footers)
            offsets = _standing(narrow)
            is_whole = is_whole and not narrow.by_footers
            chosen[item.id] = Chosen(view.vocab.offset_column, offsets)
            items.append(
                replace(
                    item,
                    slices=tuple(data for data, _ in view.slices),
                    watermarks=(),
                    remembered=watermark_of(last_data(dataset, block)),
                )
            )
        plan = replace(self.plan, inputs=tuple(items), prev_checkpoint=None)
        return plan, chosen, is_whole

    def _arrivals(self, event: ExecuteTransform) -> Iterator[Arrival]:
        """Yield the executions up to the block of the row, newest first."""
        at = {dataset.id: place for place, dataset in enumerate(self.inputs)}
        events = [event] if self.row.adds else []
        earlier = (block.event for block in backwards(self.row.dataset, self.row.block.prev))
        for one in (*events, *(each for each in earlier if isinstance(each, ExecuteTransform))):
            offsets = [-1] * len(at)
            marks: list[Instant | None] = [None] * len(at)
            for item in one.query_inputs:
                if (place := at.get(item.dataset_id)) is None:
                    continue
                last = item.prev_offset if item.new_offset is None else item.new_offset
                offsets[place] = -1 if last is None else last
                mark = watermark_of(last_data(self.inputs[place], item.prev_block_hash))
                marks[place] = None if mark is None else mark.event_time
            yield Arrival(offsets=offsets, watermarks=marks)

    # --- runs -------------------------------------------------------------------------------

    def count(self, rows: Mapping[int, Offsets], operations: Operations | None = None) -> int:
        """Return how many rows of the same content the query gives of these rows alone, with one of
        the operations; by default those that add or take away, as the row does."""
        if self._last is None or self._last[0] != rows:
            self._last = dict(rows), self._given(rows)
        wanted = operations or (ADDS if self.row.adds else TAKES)
        return sum(self._last[1][each] for each in wanted)

    def _given(self, rows: Mapping[int, Offsets]) -> Counter[Operation]:
        """Return the numbers of rows of the same content that the query gives of these rows."""
        chosen = {
            self.plan.inputs[at].id: Chosen(self._offset_column(at), offsets)
            for at, offsets in rows.items()
        }
        folder, files = self._place(chosen)
        try:
            done = execute(
                self.row.dataset,
                replace(within(self.plan, chosen), prev_checkpoint=None),
                self.inputs,
                self.engine,
                files,
                folder,
                self.bench.job_progress,
                checkpoint=None,
            )
            table = pq.read_table(done.made.data_path)
        finally:
            for each in (folder, files.copies):
                shutil.rmtree(each, ignore_errors=True)
        codes = table.filter(_like(table, self.row.data())).column(
            self.row.view.vocab.operation_type_column
        )
        return Counter(map(Operation, codes.to_pylist()))

    def _view(self, dataset: Dataset, block: Multihash) -> View:
        return self.bench.memory.outline(dataset, block).on(DatasetSource(dataset))

    def _offset_column(self, at: int) -> str:
        return self.inputs[at].state(self.plan.inputs[at].as_of).vocab.offset_column

    def _place(self, chosen: Mapping[DatasetId, Chosen]) -> tuple[Path, ChosenFiles]:
        self._runs += 1
        folder = self.folder / f"run-{self._runs}"
        return folder, ChosenFiles(self.files, self.folder / f"chosen-{self._runs}", chosen)

    def _answer(self, trace: Trace, verdict: str, reason: str | None = None) -> Witnesses:
        return Witnesses(
            inputs=tuple(item.id for item in self.plan.inputs),
            trace=trace,
            verdict=verdict,
            reason=reason,
            engine=self.engine.name,
            engine_version=self.engine.version,
        )


def _like(table: pa.Table, wanted: Mapping[str, pa.Scalar]) -> pa.ChunkedArray:
    """Return a mask of the rows with these values. A column that the query does not give, because
    another query gave it, counts as null."""
    there = {name: value for name, value in wanted.items() if name in table.schema.names}
    if any(value.is_valid for name, value in wanted.items() if name not in there):
        return pa.chunked_array([pa.repeat(pa.scalar(False), table.num_rows)])
    return rows_like(table, there)


def _narrowed(
    view: View, known: Sequence[Condition], below: Projection, footers: LearnedBounds | None
) -> Narrowed:
    """Return the view narrowed to the rows that meet the conditions."""
    try:
        return narrowed(view, _filters(view, known), below=below, footers=footers)
    except MalformedFilter:  # the column had another type, so nothing is known of it
        return narrowed(view)


def _standing(narrow: Narrowed) -> Offsets:
    """Return the offsets of the rows that were not taken back."""
    slices, vocab = [data.offset_interval for data, _ in narrow.view.slices], narrow.view.vocab
    if not slices:
        return ()
    with scanning(narrow) as scan:
        if takes_back(scan, vocab):
            return [int(each) for each in live_facts(scan, vocab)]
    if narrow.early is None:
        return range(slices[0].start, slices[-1].end + 1)
    return _offsets(narrow)


def _offsets(narrow: Narrowed) -> list[int]:
    column = narrow.view.vocab.offset_column
    with scanning(narrow) as scan:
        return [each for batch in scan([column], None) for each in batch.column(0).to_pylist()]


def _filters(view: View, known: Sequence[Condition]) -> list[Filter]:
    """Return the conditions on columns that the view has, and whose values fit them."""
    found = []
    for each in known:
        there = view.schema is not None and each.column in view.schema.names
        if there and view.schema is not None and is_compared(view.schema.field(each.column).type):
            found.append(Filter(each.column, each.operator, (each.value,)))
    return found


def _halves(rows: Mapping[int, Offsets]) -> tuple[dict[int, Offsets], dict[int, Offsets]]:
    """Split the rows in two, in their order: by input, and the rows of the last input by half."""
    first, *rest = sorted(rows)
    if rest:
        return {first: rows[first]}, {at: rows[at] for at in rest}
    middle = len(rows[first]) // 2
    return {first: rows[first][:middle]}, {first: rows[first][middle:]}


def _with_partner(rows: Mapping[int, Offsets]) -> Iterator[dict[int, Offsets]]:
    """Yield the one row, and it with the row after or before it, which may be the other half of a
    correction."""
    yield dict(rows)
    for at, offsets in rows.items():
        for offset in offsets:
            yield {at: [offset, offset + 1]}
            if offset:
                yield {at: [offset - 1, offset]}
