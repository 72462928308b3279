"""The contract of transform and check jobs: payloads and receipts.

A transform job computes a derivative from the rows of its inputs that it has not read yet. A check
job finds out what a transform would give, and commits nothing.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
from msgspec import Struct

from odf_protocol.identity import DatasetId
from odf_protocol.typed import convert

from ...stores.ports.values import JobSpec
from .ingest_job import RowsReceipt

KIND = "transform"
CHECK = "check"
CHECK_SOURCE = "check-source"
"""A separate kind, so that workers of earlier versions do not take such a job."""


class TransformPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How to compute a derivative."""

    reset_on_diverged: bool | None = None
    """Compute everything again if an input was rewritten; absent: the setting of the worker."""
    everything_is_read: bool | None = None
    """Whether the node shows all datasets to everybody, and so to every definition."""


class TransformReceipt(RowsReceipt, frozen=True, kw_only=True, rename="camel"):
    """The result of a transform: sums over all iterations; hashes and size of the last slice."""

    rows_late: int = 0
    """Rows and changes of inputs that were left out, since the results that they change are
    final."""
    iterations: int = 0
    has_more: bool = False
    """More input is left; a job for it is queued."""
    reason: str | None = None
    """Why nothing was done, if that is not obvious."""
    was_reset: bool = False
    """An input was rewritten, so everything was computed again."""
    engine: str | None = None
    engine_version: str | None = None


class CheckPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A transform to check, in the form of manifests, with inputs by id."""

    definition: dict[str, Any]
    """The `SetTransform`."""
    vocab: dict[str, Any] | None = None
    """The `SetVocab`, if there is one."""
    current: dict[str, Any] | None = None
    """The schema that the result has to continue, if there is one."""
    dataset: str | None = None
    """The derivative that gets the transform, if it has executed already."""
    checkpoint: str | None = None
    """The checkpoint of the last execution."""


class CheckSourcePayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A source of a root to check, in the form of manifests."""

    source: dict[str, Any]
    """The `AddPushSource` or `SetPollingSource`."""
    vocab: dict[str, Any] | None = None
    current: dict[str, Any] | None = None
    """The schema of the dataset, if it has one."""


class CheckReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result that a transform or a source would have."""

    outcome: Literal["valid", "unknown"]
    """Unknown: an input has no schema yet, so nothing can be checked."""
    schema: dict[str, Any] | None = None
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    engine: str | None = None
    engine_version: str | None = None


def job_of(dataset: DatasetId, payload: TransformPayload) -> JobSpec:
    """Return the job to submit; an equal waiting job is joined."""
    asked = to_json(payload)
    lock = str(dataset)
    key = f"{KIND}:{lock}:{json.dumps(asked, sort_keys=True)}"
    return JobSpec(KIND, dataset, asked, lock=lock, dedup_key=key)


def to_json(value: Struct) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> TransformPayload:
    return convert(value, TransformPayload)


def check_of(value: dict[str, Any]) -> CheckPayload:
    return convert(value, CheckPayload)


def check_source_of(value: dict[str, Any]) -> CheckSourcePayload:
    return convert(value, CheckSourcePayload)


def checked_of(value: dict[str, Any]) -> CheckReceipt:
    return convert(value, CheckReceipt)


def receipt_of(value: dict[str, Any]) -> TransformReceipt:
    return convert(value, TransformReceipt)
