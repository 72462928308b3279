"""Polls: plan, fetch, prepare, then ingest like any batch; one commit per fetch.

The new source state is in the same block as its rows, so a poll that is repeated after a crash
neither loses rows nor duplicates them. When another writer committed first, the poll is planned
again; fetched bytes are reused as long as the plan starts from the same state.

Receipts of polls: without new data, of several fetches, of blocks from an earlier attempt.

Variables and secrets for the templates of a source.

They are the dataset's, and also those of the owner's account if that account defined the source.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from odf_protocol.chain.state import ChainState
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, HashedBlock, SetPollingSource
from odf_protocol.metadata.sources import (
    FetchStep,
    FetchStepFilesGlob,
    FetchStepUrl,
    MergeStrategySnapshot,
)
from odf_protocol.multihash import Multihash
from odf_protocol.sources.source_marks import (
    files_of,
    is_repeat,
    is_same_content,
    marks_of,
)
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import RowsReceipt, facts_of_slices
from odf_storage.datasets.job_payloads.poll_job import PollPayload, PollReceipt
from odf_storage.datasets.node.rights import has_account_secrets
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import DatasetEntry
from odf_storage.stores.registers.accounts.sealing import SecretKeys

from ...fetch.run import fetch
from ...fetch.taken import FilesTaken
from ...fetch.values import Fetched, FetchRequest, FetchRules
from ...plan.ingest import plan_source
from ...plan.poll import NothingToPoll, PollPlan, plan_poll, takes_again
from ...prepare.run import check_steps
from ...readers.formats.plain import naming
from ...readers.formats.plain_text import Plain
from ..ingest.outcome import Extras
from ..ingest.run import commit, prepare_post, write_post
from ..work.context import WorkerContext
from .contents import Contents, marks_with_content

MAX_WARNINGS = 100
"""Limit of different warnings in the receipt of a poll."""
EMPTY = "the source gave no byte, after it gave rows before: no row was taken"
READ_BEFORE = (
    "the source was defined anew, and gives what was read by its last definition: that is not read "
    "again, since this merge strategy would add all rows a second time (reset the dataset to "
    "before they were added, to read them anew)"
)
_COUNTS = ("rows_read", "rows_added", "rows_known", "rows_retracted", "rows_corrected", "fetches")
_LATEST = ("watermark", "physical_hash", "logical_hash", "size", "offset_end")


def up_to_date(
    head: Multihash | None,
    *,
    uncacheable: bool = False,
    no_source_defined: bool = False,
    warnings: Sequence[str] = (),
) -> PollReceipt:
    """Return the receipt of a poll that wrote nothing."""
    return PollReceipt(
        outcome="up-to-date",
        prev_head=str(head),
        head=str(head),
        uncacheable=uncacheable,
        no_source_defined=no_source_defined,
        warnings=tuple(warnings),
    )


def added_up(first: PollReceipt, second: PollReceipt) -> PollReceipt:
    """Join the receipts of two successive polls."""
    updated = "updated" in (first.outcome, second.outcome)
    counts = {name: getattr(first, name) + getattr(second, name) for name in _COUNTS}
    latest = {
        name: getattr(first, name) if getattr(second, name) is None else getattr(second, name)
        for name in _LATEST
    }
    start = second.offset_start if first.offset_start is None else first.offset_start
    return replace(
        second,
        outcome="updated" if updated else "up-to-date",
        prev_head=first.prev_head,
        blocks=(*first.blocks, *second.blocks),
        slices=(*first.slices, *second.slices),
        warnings=tuple(dict.fromkeys((*first.warnings, *second.warnings)))[:MAX_WARNINGS],
        offset_start=start,
        uncacheable=second.uncacheable and not updated,
        ran=first.ran if second.ran is None else second.ran.added_to(first.ran),
        **counts,
        **latest,
    )


def of_blocks(blocks: Sequence[HashedBlock]) -> PollReceipt | None:
    """Make a receipt of blocks whose original receipt was lost; the number of read rows is
    unknown."""
    if not blocks:
        return None
    events = [block.event for block in blocks if isinstance(block.event, AddData)]
    slices = [event.new_data for event in events if event.new_data is not None]
    watermark = events[-1].new_watermark if events else None
    return PollReceipt(
        outcome="updated",
        prev_head=str(blocks[0].prev),
        head=str(blocks[-1].hash),
        blocks=tuple(str(block.hash) for block in blocks),
        watermark=str(watermark) if watermark else None,
        fetches=len(events),
        **facts_of_slices(slices),
    )


SecretsOf = Callable[[SetPollingSource], Mapping[str, str]]
"""Returns the variables that templates of a source may read, beside those that the administrator
allows."""


def _none(_: SetPollingSource) -> Mapping[str, str]:
    return {}


@dataclass(slots=True)
class _Fetches:
    """The last fetch, kept for the next attempt in case its plan is the same."""

    folder: Path
    secrets: SecretsOf
    late_files: bool = False
    again: tuple[str, ...] = ()
    plan: PollPlan | None = None
    found: Fetched | None = None
    warnings: tuple[str, ...] = ()
    made: int = field(default=0)

    def of(
        self,
        plan: PollPlan,
        rules: FetchRules,
        now: Instant,
        taken: FilesTaken,
        contents: Contents,
    ) -> Fetched | None:
        if plan != self.plan:
            self.made += 1
            folder = self.folder / f"fetch-{self.made}"
            folder.mkdir()
            variables = {**rules.variables, **self.secrets(plan.source)}
            rules = dataclasses.replace(rules, variables=variables)
            request = FetchRequest(
                state=plan.state,
                system_time=now,
                folder=folder,
                rules=rules,
                source=plan.source,
                taken=taken,
                content_of=contents,
                late_files=self.late_files,
                again=self.again,
                marks=plan.marks,
            )
            self.found = fetch(plan.source.fetch, request)
            self.plan, self.warnings = plan, tuple(request.warnings)
        return self.found


def run_poll(
    dataset: Dataset,
    payload: PollPayload,
    context: WorkerContext,
    *,
    now: Instant,
    repeated: bool = False,
    secrets: SecretsOf = _none,
) -> PollReceipt:
    """Poll once, or until the source is exhausted. `now` is the time of the request. `secrets` is
    called with the source that is fetched, which may have changed while the job waited.

    Raises:
        NodeError: the source, its data or the dataset's state does not allow it. Commits of earlier
            fetches of the same poll stay; fact `fetchesCommitted` counts them.
        RefConflict: other writers committed first too often.
    """
    blocks = _committed_since(dataset, now) if repeated else []
    done = of_blocks(blocks)
    if done is not None:
        if not payload.exhausts:
            return done
        # A forced fetch would return rows that are already committed.
        files = {name for block in blocks for name in files_of(marks_of(_data(block)))}
        payload = replace(
            payload,
            fetch_uncacheable=False,
            files=tuple(name for name in payload.files if name not in files),
        )
    total = done
    for _ in range(context.polls.max_fetches):
        try:
            receipt, name = _poll_once(dataset, payload, context, now, secrets)
        except NodeError as error:
            if total is not None and total.fetches:
                error.facts["fetchesCommitted"] = total.fetches
            raise
        total = receipt if total is None else added_up(total, receipt)
        if not (receipt.has_more and payload.exhausts):
            break
        payload = replace(payload, files=tuple(each for each in payload.files if each != name))
    return total or up_to_date(dataset.head())


def _poll_once(
    dataset: Dataset, payload: PollPayload, context: WorkerContext, now: Instant, secrets: SecretsOf
) -> tuple[PollReceipt, str | None]:
    """Fetch once and commit. Return also the name of the file, for a source of many files."""
    with tempfile.TemporaryDirectory(prefix="poll-", dir=context.scratch) as name:
        fetches = _Fetches(Path(name), secrets, payload.late_files, payload.files)
        for attempt in range(1, context.commit_attempts + 1):
            try:
                return _attempt(dataset, payload, context, now, fetches)
            except RefConflict:
                if attempt == context.commit_attempts:
                    raise
    raise AssertionError("unreachable: the loop returns or raises")


def _attempt(
    dataset: Dataset, payload: PollPayload, context: WorkerContext, now: Instant, fetches: _Fetches
) -> tuple[PollReceipt, str | None]:
    state = dataset.state()
    plan = plan_poll(state, fetch_uncacheable=payload.fetch_uncacheable)
    if isinstance(plan, NothingToPoll):
        nothing = up_to_date(
            state.head, uncacheable=plan.uncacheable, no_source_defined=plan.no_source_defined
        )
        return nothing, None
    source = plan.source
    if payload.exhausts and not payload.exhaust_sources:
        _require_folder(source.fetch)
    check_steps(source.prepare or (), context.polls.preparation)
    taken = FilesTaken()
    if isinstance(source.fetch, FetchStepFilesGlob) and state.head is not None:
        taken = context.polls.files.of(dataset, state.head)
    contents = Contents(
        source=source,
        preparation=context.polls.preparation,
        limits=context.ingest.limits,
        scratch=fetches.folder,
    )
    found = fetches.of(plan, context.polls.fetch, now, taken, contents)
    if found is None or is_repeat(found.marks, plan.marks):
        return up_to_date(state.head, warnings=fetches.warnings), None
    told = [*fetches.warnings, *found.warnings]
    if is_empty := _gives_nothing(found, state, source):
        told.append(EMPTY)
        found = dataclasses.replace(found, marks=plan.marks)
    limit = payload.max_vanish_percent
    with tempfile.TemporaryDirectory(prefix="attempt-", dir=fetches.folder) as folder:
        scratch = Path(folder)
        with _naming_file(found):
            plain, marks = Plain(found.path, source.read), found.marks
            if found.table is None:
                plain = contents.plain(found.path, scratch, told)
                marks = marks if is_empty else marks_with_content(found, plain, contents)
            if (known := None if is_empty else _known(marks, plan)) is not None:
                return up_to_date(state.head, warnings=(*told, *known)), None
            ingest = plan_source(
                state,
                source,
                read=plain.step,
                now=now,
                source_event_time=_event_time(payload, source.fetch, found),
                ahead_s=context.ingest.watermark_ahead_s,
            )
            limit = context.polls.max_vanish_percent if limit is None else limit
            extras = Extras(source_state=found.state, marks=marks, max_vanish_percent=limit)
            content, table = plain.content, found.table
            post = prepare_post(dataset, ingest, content, context, scratch, extras, table)
            batch = write_post(dataset, state, post, context, scratch)
        commit(dataset, batch, context)
    context.polls.files.add(dataset.id, marks, now)
    receipt = batch.receipts[0]
    facts = {name: getattr(receipt, name) for name in RowsReceipt.__struct_fields__}
    facts["warnings"] = tuple(dict.fromkeys((*told, *plain.warnings, *receipt.warnings)))
    done = PollReceipt(**facts, ran=receipt.ran, fetches=1, has_more=found.has_more)
    return done, found.name


def _known(marks: Mapping[str, Any], plan: PollPlan) -> Sequence[str] | None:
    """Return what to say of bytes that were taken before; None if they are to be taken."""
    if is_repeat(marks, plan.marks):
        return ()
    is_known = is_same_content(marks, plan.marks) and not takes_again(plan.source)
    return (READ_BEFORE,) if is_known else None


def _gives_nothing(found: Fetched, state: ChainState, source: SetPollingSource) -> bool:
    """Whether an address that gave rows before gives no byte now. Then the block, if the server
    tells another state, keeps the marks of the rows, so that they are not taken again when they
    return. An empty snapshot is a state by itself."""
    return (
        isinstance(source.fetch, FetchStepUrl)
        and not isinstance(source.merge, MergeStrategySnapshot)
        and state.last_offset is not None
        and found.table is None
        and found.path.stat().st_size == 0
    )


def _require_folder(step: FetchStep) -> None:
    """Raise `NotAFolder` if files were asked for by name."""
    if not isinstance(step, FetchStepFilesGlob):
        raise BadInput(
            "NotAFolder", "only a source of files in a folder (FilesGlob) takes files by name"
        )


def _data(block: HashedBlock) -> AddData | None:
    return block.event if isinstance(block.event, AddData) else None


@contextmanager
def _naming_file(found: Fetched) -> Iterator[None]:
    """Add the name of the file to an error, for a source of many files."""
    try:
        yield
    except NodeError as bad:
        if found.name is None:
            raise
        raise naming(bad, found.name) from None


def _event_time(payload: PollPayload, step: FetchStep, found: Fetched) -> Instant:
    """Return the event time of the request, unless the source declares where event times come
    from."""
    if payload.source_event_time is None or getattr(step, "event_time", None) is not None:
        return found.event_time
    return Instant.parse(payload.source_event_time)


def _committed_since(dataset: Dataset, now: Instant) -> list[HashedBlock]:
    """Return the blocks that an earlier attempt of the same job committed: the newest blocks, not
    older than the request. Empty unless a poll wrote one of them.

    Data blocks without rows that repeat the source state do not count: a watermark set by hand is
    such a block, and to poll again after one adds no row twice.
    """
    blocks, left_off = [], None
    for block in dataset.blocks():
        event = block.block.event
        if isinstance(event, AddData):
            is_repeated = event.new_data is None and event.new_source_state == left_off
            left_off = event.new_source_state
            if is_repeated:
                continue
        if block.block.system_time >= now:
            blocks.append(block)
    return blocks if any(isinstance(block.block.event, AddData) for block in blocks) else []


@dataclass(frozen=True, slots=True)
class Secrets:
    """Reads secrets when they are needed; keeps none."""

    stores: Stores
    keys: SecretKeys

    def of(self, entry: DatasetEntry, source: SetPollingSource) -> Mapping[str, str]:
        """Return the values by name; the dataset's take precedence. Raises `SecretUnreadable`."""
        owner = entry.alias.account
        account = self.stores.accounts.find_account(str(owner)) if owner is not None else None
        its_own = account is not None and has_account_secrets(self.stores, entry, source)
        owners = [str(account.id)] if account is not None and its_own else []
        return {
            name: self.keys.opened(one, variable)
            for one in (*owners, str(entry.id))
            for name, variable in self.stores.variables.of_owner(one).items()
        }
