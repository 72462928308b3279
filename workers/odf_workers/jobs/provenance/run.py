"""A provenance job: from a row to the rows that it was made from, as deep as was asked.

Each step says of one row which block added it and how: the source of a root, or the query of a
derivative with the rows of its inputs. What cannot be said is said; it is no error.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from odf_protocol.errors import NodeError, NotFound
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    ExecuteTransform,
    HashedBlock,
    SetPollingSource,
    SetTransform,
)
from odf_protocol.metadata.sources import FetchStepUrl
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.why_job import (
    RANGES,
    UNKNOWN,
    BlockFacts,
    Cell,
    Check,
    How,
    OffsetRange,
    ReadInterval,
    RowFacts,
    WhyAnswer,
    WhyInput,
    WhyPayload,
    WhyStep,
    ranges,
)
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.view import require_in_history
from odf_storage.stores.ports.values import Succeeded

from ...engines.port.port import steps_of
from ...engines.port.tracing import Role, Witness
from ..transform.chains import backwards
from ..transform.replay import CUT_SHORT
from ..work.context import WorkerContext
from .rows import OPERATIONS, FoundRow, Seen, fate_of, find_row, offset_of_key
from .witness import Witnesses, witnesses_of

FOLLOWED = 10
"""Limit of rows of one input that are followed further; the others are named."""
STEPS = 100
"""Limit of steps in one answer."""
SECONDS = 60.0
"""Seconds after which no further row is followed."""
JOBS = 200
"""Limit of jobs of a dataset among which the one that brought a row is looked for."""
_NOT_HERE = "it is not on this node"
_HIDDEN = "you may not read it"


def run_why(stores: Stores, payload: WhyPayload, bench: WorkerContext) -> WhyAnswer:
    """Answer why a row is there.

    Raises:
        DatasetNotFound, NotInHistory, RowNotFound, UnknownColumn. NoPrimaryKey, WrongKey,
        MalformedFilter: the row was named by a key. JobLost, …
    """
    dataset = stores.dataset(DatasetRef.parse(payload.dataset))
    at = Multihash.parse(payload.at)
    require_in_history(dataset, at)
    walk = _Walk(stores, payload, bench)
    bench.job_progress.phase("read")  # counts the rows that were followed
    offset = payload.offset
    if offset is None:
        offset = offset_of_key(dataset, payload.key, at, walk.seen)
    return WhyAnswer(at=payload.at, step=walk.step(dataset, offset, at, payload.depth))


@dataclass
class _Walk:
    """The walk from a row to its rows. Each row is a step of its own."""

    stores: Stores
    asked: WhyPayload
    bench: WorkerContext
    _steps: int = field(default=0)
    seen: Seen = field(init=False)
    _until: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def __post_init__(self) -> None:
        self.seen = Seen(self.bench.memory)

    def step(
        self,
        dataset: Dataset,
        offset: int,
        at: Multihash | None,
        depth: int,
        *,
        is_first: bool = True,
    ) -> WhyStep:
        self._steps += 1
        self.bench.job_progress.check()
        self.bench.job_progress.passed(1)
        row = find_row(dataset, offset, at, self.seen)
        block = row.block
        event = block.event
        if isinstance(event, ExecuteTransform):
            return self._derived(row, block, event, depth, is_first=is_first)
        return WhyStep(
            row=self._facts(row),
            block=_block_facts(block),
            how=self._how_added(dataset, block),
            where={name: Cell(kind="source") for name in row.data()},
            check=Check(verdict="recorded"),
        )

    def _derived(
        self,
        row: FoundRow,
        block: HashedBlock,
        event: ExecuteTransform,
        depth: int,
        *,
        is_first: bool,
    ) -> WhyStep:
        how = _how_computed(row.dataset, block)
        facts = self._facts(row)
        try:
            found = witnesses_of(self.stores, row, block, event, self.bench)
        except CUT_SHORT:
            raise
        except NodeError as problem:  # what can be said is said
            return WhyStep(
                row=facts,
                block=_block_facts(block),
                how=how,
                why=tuple(self._unread(item.dataset_id, 0) for item in event.query_inputs),
                check=Check(verdict=UNKNOWN, reason=problem.message),
            )
        why = tuple(
            self._why(dataset, [w for w in found.trace.witnesses if w.input == at], at, is_first)
            for at, dataset in enumerate(found.inputs)
        )
        inputs, is_cut = self._followed(found, event, depth)
        return WhyStep(
            row=facts,
            block=_block_facts(block),
            how=_computed_by(how, found),
            why=why,
            check=Check(verdict=found.verdict, reason=found.reason),
            notes=found.trace.notes,
            inputs=inputs,
            is_cut=is_cut,
        )

    def _facts(self, row: FoundRow) -> RowFacts:
        fate = fate_of(row, self.seen)
        return RowFacts(
            dataset=str(row.dataset.id),
            alias=str(row.dataset.entry.alias),
            offset=row.offset,
            operation=OPERATIONS[row.operation],
            values=row.values(),
            stands=row.adds and fate.undone_by is None,
            undone_by=fate.undone_by,
            undoes=fate.undoes,
        )

    def _why(
        self, dataset: DatasetId, rows: Sequence[Witness], number: int, is_first: bool
    ) -> WhyInput:
        if str(dataset) not in self.asked.readable:
            return self._unread(dataset, len({each.offset for each in rows}))
        alias = self.stores.dataset(DatasetRef(id=dataset)).entry.alias
        found: list[OffsetRange] = []
        for role in Role:
            found += ranges(sorted({w.offset for w in rows if w.role is role}), role.value)
        after = self.asked.after if is_first else None
        begin = _begin(found, after, number)
        page = found[begin : begin + RANGES]
        more = len(found) > begin + RANGES
        last = page[-1] if page else None
        return WhyInput(
            dataset=str(dataset),
            alias=str(alias),
            rows=tuple(page),
            count=len({each.offset for each in rows}),
            next=f"{number}.{last.role}.{last.end}" if more and last is not None else None,
        )

    def _unread(self, dataset: DatasetId, count: int) -> WhyInput:
        is_here = self.stores.registry.find(DatasetRef(id=dataset)) is not None
        is_read = str(dataset) in self.asked.readable
        # A dataset that the caller may not see looks like one that is not here.
        unread = None if is_read and is_here else f"{_NOT_HERE}, or {_HIDDEN}"
        alias = ""
        if is_read and is_here:
            alias = str(self.stores.dataset(DatasetRef(id=dataset)).entry.alias)
        return WhyInput(dataset=str(dataset), alias=alias, count=count, unread=unread)

    def _followed(
        self, found: Witnesses, event: ExecuteTransform, depth: int
    ) -> tuple[tuple[WhyStep, ...], bool]:
        if depth <= 1:
            return (), False
        blocks = {i.dataset_id: i.new_block_hash or i.prev_block_hash for i in event.query_inputs}
        steps: list[WhyStep] = []
        is_cut = False
        for at, dataset in enumerate(found.inputs):
            if str(dataset) not in self.asked.readable:
                continue
            offsets = list(dict.fromkeys(w.offset for w in found.trace.witnesses if w.input == at))
            is_cut = is_cut or len(offsets) > FOLLOWED
            for offset in offsets[:FOLLOWED]:
                if self._steps >= STEPS or time.monotonic() > self._until:
                    return tuple(steps), True
                item = self.stores.dataset(DatasetRef(id=dataset))
                at_block = blocks.get(dataset)
                try:
                    steps.append(self.step(item, offset, at_block, depth - 1, is_first=False))
                except CUT_SHORT:
                    raise
                except NodeError:  # its slice is damaged, or gone
                    is_cut = True
        return tuple(steps), is_cut

    def _how_added(self, dataset: Dataset, block: HashedBlock) -> How:
        event = block.event
        if not isinstance(event, AddData):
            raise NotFound("RowNotFound", f"block {block.hash} adds no rows")
        state = event.new_source_state
        name = None if state is None else state.source_name
        source = _source_before(dataset, block, name)
        job, account = self._job_of(dataset, block)
        if source is None:
            return How(job=job, account=account)
        definition = source.event
        is_poll = isinstance(definition, SetPollingSource)
        url = None
        if isinstance(definition, SetPollingSource) and isinstance(definition.fetch, FetchStepUrl):
            url = definition.fetch.url
        return How(
            definition=str(source.hash),
            source=name if is_poll else definition.source_name,  # type: ignore[union-attr]
            kind="poll" if is_poll else "push",
            merge=type(definition.merge).__struct_config__.tag,  # type: ignore[union-attr, arg-type]
            url=url,
            state=None if state is None else {"kind": state.kind, "value": state.value},
            job=job,
            account=account,
        )

    def _job_of(self, dataset: Dataset, block: HashedBlock) -> tuple[str | None, str | None]:
        """Return the job that brought a block, and its account, if the caller may see jobs."""
        if str(dataset.id) not in self.asked.sees_jobs:
            return None, None
        for job in self.stores.jobs.page(dataset=dataset.id, limit=JOBS, newest_first=True):
            done = job.outcome
            if isinstance(done, Succeeded) and str(block.hash) in done.result.get("blocks", ()):
                return str(job.id), job.spec.account
        return None, None


def _begin(found: Sequence[OffsetRange], after: str | None, number: int) -> int:
    """Return where the page of an input begins."""
    if after is None:
        return 0
    place, role, end = after.split(".")
    if int(place) != number:
        return 0
    for at, each in enumerate(found):
        if each.role == role and each.end == int(end):
            return at + 1
    return len(found)


def _block_facts(block: HashedBlock) -> BlockFacts:
    event = block.event
    read = event.query_inputs if isinstance(event, ExecuteTransform) else ()
    return BlockFacts(
        hash=str(block.hash),
        sequence_number=block.sequence_number,
        system_time=str(block.block.system_time),
        inputs=tuple(
            ReadInterval(
                dataset=str(item.dataset_id),
                prev_block=None if item.prev_block_hash is None else str(item.prev_block_hash),
                new_block=None if item.new_block_hash is None else str(item.new_block_hash),
                start=None
                if item.new_offset is None
                else (-1 if item.prev_offset is None else item.prev_offset) + 1,
                end=item.new_offset,
            )
            for item in read
        ),
    )


def _how_computed(dataset: Dataset, block: HashedBlock) -> How:
    for earlier in backwards(dataset, block.prev):
        if isinstance(earlier.event, SetTransform):
            transform = earlier.event.transform
            return How(
                definition=str(earlier.hash),
                engine=transform.engine,
                queries=tuple(step.query for step in steps_of(transform)),
            )
    return How()


def _computed_by(how: How, found: Witnesses) -> How:
    return How(
        definition=how.definition,
        engine=found.engine,
        engine_version=found.engine_version,
        queries=how.queries,
        forms=found.trace.forms,
    )


def _source_before(dataset: Dataset, block: HashedBlock, name: str | None) -> HashedBlock | None:
    """Return the newest definition of the source that added a block; of any source if its name is
    not recorded."""
    for earlier in backwards(dataset, block.prev):
        match earlier.event:
            case AddPushSource(source_name=own) if name in (None, own):
                return earlier
            case SetPollingSource():
                return earlier
    return None
