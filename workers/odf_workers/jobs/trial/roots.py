"""Trial of a root: its sample passes through all stages of a batch, but is not committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddPushSource, SetPollingSource
from odf_storage.datasets.job_payloads.trial_job import TrialPayload

from ...plan.ingest import IngestPlan, plan_source, select_source
from ...readers.read import for_media_type
from ...slices.write import Written
from ..ingest.outcome import Extras
from ..ingest.run import prepare_post, write_post
from ..transform.check_source import columns_of
from ..work.context import WorkerContext
from ..work.slice_files import readable
from .tried import Tried

NO_SAMPLE = "no source declares its columns, so the first rows will tell them: give a sample"
DIFFERENT = "the sources declare different columns, so the first rows will tell them"


class NothingToTry(BadInput):
    """The request has a sample for a dataset that accepts no posted rows."""


def try_columns(root: Tried, context: WorkerContext, folder: Path) -> Tried:
    """Return the root with the columns that its sources declare; each source is tried on a batch
    without rows.

    Raises the same errors as `run_source_check`.
    """
    state = root.state
    found = []
    for number, source in enumerate(_sources(root)):
        place = folder / f"source-{number}"
        place.mkdir(parents=True)
        columns = columns_of(
            source, state.vocab, state.data_schema, context.engines, context.job_progress, place
        )
        found += [] if columns is None else [columns]
    if state.data_schema is not None or not found:
        reason = NO_SAMPLE if state.data_schema is None else None
        return replace(root, schema=state.data_schema, reason=reason)
    if any(each != found[0] for each in found):
        return replace(root, reason=DIFFERENT)
    return replace(root, schema=found[0])


def try_sample(
    root: Tried,
    sample: bytes,
    payload: TrialPayload,
    context: WorkerContext,
    folder: Path,
    *,
    now: Instant,
) -> Tried:
    """Return the root with the rows and the schema that its sample results in.

    Raises:
        NodeError: a batch of these rows would be refused.
    """
    folder.mkdir(parents=True)
    path = folder / "sample"
    path.write_bytes(sample)
    plan = _plan(root, payload, now)
    post = prepare_post(root.dataset, plan, path, context, folder, Extras())
    batch = write_post(root.dataset, root.state, post, context, folder)
    receipt = batch.receipts[0]
    return replace(
        root,
        schema=batch.state.data_schema,
        reason=NO_SAMPLE if batch.state.data_schema is None else None,
        rows=_rows(batch.slices),
        rows_read=receipt.rows_read,
        warnings=receipt.warnings,
    )


def _plan(root: Tried, payload: TrialPayload, now: Instant) -> IngestPlan:
    source: AddPushSource | SetPollingSource | None = root.state.polling_source
    if source is None or payload.source_name is not None:
        source = select_source(root.state, payload.source_name)
    read = for_media_type(source.read, payload.media_type)
    return plan_source(root.state, source, read=read, now=now, source_event_time=now)


def _sources(root: Tried) -> Sequence[AddPushSource | SetPollingSource]:
    polling = root.state.polling_source
    return (*(() if polling is None else (polling,)), *root.state.push_sources.values())


def _rows(slices: Sequence[Written]) -> pa.Table | None:
    tables = [pq.read_table(each.source()) for each in readable(slices) if each.data is not None]
    return pa.concat_tables(tables) if tables else None
