"""The contract of an ingest job: payload and receipt.

`app` writes the payload and reads the receipt; `workers` reads the payload and writes the receipt.
Neither imports the other. Both values pass through the job queue as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import DataSlice
from odf_protocol.multihash import Multihash
from odf_protocol.typed import convert

from ...stores.ports.values import ObjectKey, ObjectKind

KIND = "ingest"
OnBadRows = Literal["fail", "quarantine"]
"""How to treat bad rows: fail the batch, or set them aside and ingest the other rows."""


class IngestPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One batch to ingest. Texts are canonical: hashes in base16, times in RFC 3339."""

    upload: str
    """Hash of the spooled body, an `upload` object of the dataset."""
    upload_copy: str = ""
    """Its copy: each post has its own, which is deleted after its job whatever other posts have."""
    source_name: str | None = None
    changelog: bool = False
    """The batch is a changelog of the dataset's own columns, whatever its sources are."""
    add_columns: bool = False
    """Columns of the batch that the dataset lacks extend its schema."""
    media_type: str | None = None
    source_event_time: str | None = None
    """Fallback event time; absent means the time of planning."""
    expected_head: str | None = None
    dry_run: bool = False
    max_vanish_percent: int | None = None
    """Limit, in percent, of rows of a snapshot that may vanish at once; absent: no limit."""
    on_bad_rows: OnBadRows = "fail"
    max_bad_rows: int | None = None
    """Limit of bad rows that may be set aside; the setting of the worker applies if it is absent
    or larger than that setting."""
    signature: str | None = None
    """The publisher's signature of the body, which the service has checked."""


class SliceReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """A slice that was added. The offsets include both ends."""

    offset_start: int
    offset_end: int
    physical_hash: str
    logical_hash: str
    size: int


class RanReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a job read, merged and wrote rows or verified objects, why there, and what Spark used
    for it. Posts that wait together share jobs of Spark, and each of them reports these."""

    way: Literal["process", "spark"]
    because: str | None = None
    """Why the stages ran there; None in receipts of older workers."""
    bytes: int
    """Bytes to read: the unpacked file, or the result of the query that preprocessed it, and the
    history if all of it is needed; or the objects to verify."""
    preprocessed_bytes: int | None = None
    """Bytes of the unpacked file that the worker's process read for the query of the source, before
    all other stages; None: the source has no query."""
    micro_batch_bytes: int
    """Jobs with fewer bytes run in the worker's process."""
    splits: int
    """Number of parts of the file or dataset that were read in parallel."""
    one_split_because: str | None = None
    """Why a large file was read as one part."""
    spark_jobs: int = 0
    tasks: int = 0
    shuffle_bytes: int = 0
    """Bytes of rows that passed from task to task."""
    spill_bytes: int = 0
    """Bytes of rows that Spark's sort of a shuffle wrote to disk because memory was short. 0 unless
    a stage sends rows to more than 200 partitions, since Spark does not sort for fewer. All rows
    that pass from task to task lie on disk in any case (`shuffle_bytes`)."""
    spark_page: str | None = None
    """Address of Spark's web page, if it has one, for the operator of the worker."""

    def added_to(self, earlier: RanReceipt | None) -> RanReceipt:
        """Return the sum of two runs. Its way is Spark if either ran there; it lists the reasons of
        both."""
        if earlier is None:
            return self
        sums = {name: getattr(earlier, name) + getattr(self, name) for name in _SUMS}
        raw = [earlier.preprocessed_bytes, self.preprocessed_bytes]
        return structs.replace(
            self,
            way="spark" if "spark" in (earlier.way, self.way) else "process",
            because=_listed(earlier.because, self.because),
            one_split_because=_listed(earlier.one_split_because, self.one_split_because),
            preprocessed_bytes=None if raw == [None, None] else sum(each or 0 for each in raw),
            spark_page=self.spark_page or earlier.spark_page,
            **sums,
        )


_SUMS = ("bytes", "splits", "spark_jobs", "tasks", "shuffle_bytes", "spill_bytes")


def _listed(first: str | None, second: str | None) -> str | None:
    """Join two lists of reasons, each reason once."""
    lists = [each.split(_BETWEEN) for each in (first, second) if each is not None]
    return _BETWEEN.join(dict.fromkeys(chain.from_iterable(lists))) or None


_BETWEEN = "; "


class RowsReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result for rows from any source. The offsets are over all slices and include both ends;
    hashes and size are of the last slice."""

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
    """Warnings for the publisher, or the author of a query; the job succeeded."""


class IngestReceipt(RowsReceipt, frozen=True, kw_only=True, rename="camel"):
    """The result of the batch."""

    ran: RanReceipt | None = None
    rows_rejected: int = 0
    """Number of bad rows that were set aside, and are kept for some time."""
    rejected_job: str | None = None
    """The job with which the bad rows are kept."""


class DryRunReceipt(IngestReceipt, frozen=True, kw_only=True, rename="camel"):
    """The result that the batch would have; nothing was committed."""

    dry_run: bool = True
    schema: dict[str, Any] | None = None
    """The schema that the dataset would have, in ODF form."""


def facts_of_slices(slices: Sequence[DataSlice]) -> dict[str, Any]:
    """Return the fields of a receipt for new slices: offsets over all, the last one, and each."""
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


def upload_of(dataset: DatasetId, payload: IngestPayload) -> ObjectKey:
    """Return the key of the spooled body of a batch for this dataset. Raises `MalformedHash`."""
    content = Multihash.parse(payload.upload)
    return ObjectKey(dataset, ObjectKind.UPLOAD, content, payload.upload_copy)


def receipt_of(value: dict[str, Any]) -> IngestReceipt:
    return convert(value, IngestReceipt)
