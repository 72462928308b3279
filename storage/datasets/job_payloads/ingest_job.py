"""The contract of an ingest job: what a service asks and a worker answers.

`app` writes the payload and reads the receipt, `workers` the other way round; neither
knows the other. Both travel as JSON through the job queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from odf_node.protocol.metadata.data import DataSlice
from odf_node.protocol.typed import convert

KIND = "ingest"
OnBadRows = Literal["fail", "quarantine"]
"""What becomes of a batch with bad rows: it fails, or goes on without them."""


class IngestPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One batch to ingest. Texts are canonical: hashes in base16, times RFC 3339."""

    upload: str
    """Hash of the spooled body, an `upload` object of the dataset."""
    source_name: str | None = None
    media_type: str | None = None
    source_event_time: str | None = None
    """Fallback event time; absent means the time of planning."""
    expected_head: str | None = None
    dry_run: bool = False
    max_vanish_percent: int | None = None
    """Rows of a snapshot that may vanish at once; absent means all of them."""
    on_bad_rows: OnBadRows = "fail"
    max_bad_rows: int | None = None
    """So many may be set aside; absent, or more than that, means the setting of the worker."""


class SliceReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """One slice that was added. Offsets are a closed interval."""

    offset_start: int
    offset_end: int
    physical_hash: str
    logical_hash: str
    size: int


class RanReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where rows were read, merged and written, or objects verified; what that took of Spark."""

    way: Literal["process", "spark"]
    bytes: int
    """What was to be read: the file once it is unpacked, and a history if all of it counts; or the
    objects that are verified."""
    micro_batch_bytes: int
    """Fewer run in the worker's process."""
    splits: int
    """Parts that were read side by side, of the file or of the dataset."""
    one_split_because: str | None = None
    """Why a large file was read as one."""
    spark_jobs: int = 0
    tasks: int = 0
    shuffle_bytes: int = 0
    """Of rows that went from task to task."""
    spill_bytes: int = 0
    """Of rows that went to disk because memory was short."""
    spark_page: str | None = None
    """Address of Spark's own page, if it has one: for whoever looks after the worker."""


class RowsReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of rows, wherever they came from. Offsets are a closed interval over all
    slices; the hashes and the size beside them are of the last slice."""

    outcome: Literal["updated", "up-to-date"]
    prev_head: str
    head: str
    """Hash of the newest block; equals `prev_head` when nothing changed."""
    blocks: tuple[str, ...] = ()
    """Hashes of the appended blocks, oldest first."""
    offset_start: int | None = None
    offset_end: int | None = None
    rows_read: int = 0
    rows_added: int = 0
    rows_known: int = 0
    rows_retracted: int = 0
    rows_corrected: int = 0
    watermark: str | None = None
    physical_hash: str | None = None
    logical_hash: str | None = None
    size: int | None = None
    """Bytes of the new data slice."""
    slices: tuple[SliceReceipt, ...] = ()
    """All new slices, in order of their rows."""
    warnings: tuple[str, ...] = ()
    """What the publisher, or the author of a query, should know, though it went well."""


class IngestReceipt(RowsReceipt, frozen=True, kw_only=True, rename="camel"):
    """What became of the batch."""

    ran: RanReceipt | None = None
    rows_rejected: int = 0
    """Bad rows that were set aside, and are kept for some time."""
    rejected_job: str | None = None
    """The job they are kept with."""


class DryRunReceipt(IngestReceipt, frozen=True, kw_only=True, rename="camel"):
    """What would become of the batch; nothing was committed."""

    dry_run: bool = True
    schema: dict[str, Any] | None = None
    """Which the dataset would have, as ODF has it."""


def facts_of_slices(slices: Sequence[DataSlice]) -> dict[str, Any]:
    """What new slices say in a receipt: their interval, the last of them, and each."""
    last = slices[-1] if slices else None
    return {
        "offset_start": slices[0].offset_interval.start if slices else None,
        "offset_end": last.offset_interval.end if last else None,
        "physical_hash": str(last.physical_hash) if last else None,
        "logical_hash": str(last.logical_hash) if last else None,
        "size": last.size if last else None,
        "slices": tuple(slice_receipt(each) for each in slices),
    }


def slice_receipt(data: DataSlice) -> SliceReceipt:
    return SliceReceipt(
        offset_start=data.offset_interval.start,
        offset_end=data.offset_interval.end,
        physical_hash=str(data.physical_hash),
        logical_hash=str(data.logical_hash),
        size=data.size,
    )


def to_json(value: IngestPayload | IngestReceipt) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> IngestPayload:
    return convert(value, IngestPayload)


def receipt_of(value: dict[str, Any]) -> IngestReceipt:
    return convert(value, IngestReceipt)
