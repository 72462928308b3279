"""Polls: plan, fetch, prepare, then ingest like any batch; one commit per fetch.

The new source state is in the same block as its rows, so a poll that is repeated after a crash
neither loses rows nor duplicates them. When another writer committed first, the poll is planned
again; fetched bytes are reused as long as the plan starts from the same state.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from odf_node.protocol.errors import NodeError
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.events import AddData, SetPollingSource
from odf_node.protocol.metadata.sources import FetchStep
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.job_payloads.ingest_job import RowsReceipt
from odf_node.storage.datasets.job_payloads.poll_job import PollPayload, PollReceipt
from odf_node.storage.stores.ports.errors import RefConflict

from ...fetch.run import fetch
from ...fetch.values import Fetched, FetchRequest, FetchRules
from ...plan.ingest import plan_source
from ...plan.poll import NothingToPoll, PollPlan, plan_poll
from ...prepare.run import check_steps
from ...prepare.run import prepare as prepare_steps
from ...readers.table_files import naming
from ..ingest.outcome import Extras
from ..ingest.run import commit, prepare_post, write_post
from ..work.context import WorkerContext
from .receipts import added_up, of_blocks, up_to_date

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
    plan: PollPlan | None = None
    found: Fetched | None = None
    made: int = field(default=0)

    def of(self, plan: PollPlan, rules: FetchRules, now: Instant) -> Fetched | None:
        if plan != self.plan:
            self.made += 1
            folder = self.folder / f"fetch-{self.made}"
            folder.mkdir()
            variables = {**rules.variables, **self.secrets(plan.source)}
            rules = dataclasses.replace(rules, variables=variables)
            request = FetchRequest(
                state=plan.state, system_time=now, folder=folder, rules=rules, source=plan.source
            )
            self.found = fetch(plan.source.fetch, request)
            self.plan = plan
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
    done = of_blocks(_committed_since(dataset, now)) if repeated else None
    if done is not None:
        if not payload.exhaust_sources:
            return done
        # A forced fetch would return rows that are already committed.
        payload = replace(payload, fetch_uncacheable=False)
    total = done
    for _ in range(context.polls.max_fetches):
        try:
            receipt = _poll_once(dataset, payload, context, now, secrets)
        except NodeError as error:
            if total is not None and total.fetches:
                error.facts["fetchesCommitted"] = total.fetches
            raise
        total = receipt if total is None else added_up(total, receipt)
        if not (receipt.has_more and payload.exhaust_sources):
            break
    return total or up_to_date(dataset.head())


def _poll_once(
    dataset: Dataset, payload: PollPayload, context: WorkerContext, now: Instant, secrets: SecretsOf
) -> PollReceipt:
    """Fetch once and commit."""
    with tempfile.TemporaryDirectory(prefix="poll-", dir=context.scratch) as name:
        fetches = _Fetches(Path(name), secrets)
        for attempt in range(1, context.commit_attempts + 1):
            try:
                return _attempt(dataset, payload, context, now, fetches)
            except RefConflict:
                if attempt == context.commit_attempts:
                    raise
    raise AssertionError("unreachable: the loop returns or raises")


def _attempt(
    dataset: Dataset, payload: PollPayload, context: WorkerContext, now: Instant, fetches: _Fetches
) -> PollReceipt:
    state = dataset.state()
    plan = plan_poll(state, fetch_uncacheable=payload.fetch_uncacheable)
    if isinstance(plan, NothingToPoll):
        return up_to_date(
            state.head, uncacheable=plan.uncacheable, no_source_defined=plan.no_source_defined
        )
    source = plan.source
    check_steps(source.prepare or (), context.polls.preparation)
    found = fetches.of(plan, context.polls.fetch, now)
    if found is None:
        return up_to_date(state.head)
    ingest = plan_source(
        state,
        source,
        read=source.read,
        now=now,
        source_event_time=_event_time(payload, source.fetch, found),
        ahead_s=context.ingest.watermark_ahead_s,
    )
    limit = payload.max_vanish_percent
    extras = Extras(
        source_state=found.state,
        max_vanish_percent=context.polls.max_vanish_percent if limit is None else limit,
    )
    steps, rules = source.prepare or (), context.polls.preparation
    with tempfile.TemporaryDirectory(prefix="attempt-", dir=fetches.folder) as folder:
        scratch = Path(folder)
        with _naming_file(found):
            path = prepare_steps(steps, found.path, scratch, rules)
            post = prepare_post(dataset, ingest, path, context, scratch, extras, found.table)
            batch = write_post(dataset, state, post, context, scratch)
        commit(dataset, batch, context)
    receipt = batch.receipts[0]
    return PollReceipt(
        **{
            **{name: getattr(receipt, name) for name in RowsReceipt.__struct_fields__},
            "warnings": (*found.warnings, *receipt.warnings),
        },
        ran=receipt.ran,
        fetches=1,
        has_more=found.has_more,
    )


@contextmanager
def _naming_file(found: Fetched) -> Iterator[None]:
    """Add the name of the file to an error, for a source of many files."""
    try:
        yield
    except NodeError as bad:
        if found.name is None:
            raise
        raise naming(bad, Path(found.name).name) from None


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
