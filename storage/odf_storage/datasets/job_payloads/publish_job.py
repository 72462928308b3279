"""The contract of a publication job, which brings a publication to the head or withdraws it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from odf_protocol.identity import DatasetId
from odf_protocol.typed import convert

from ...stores.ports.values import JobSpec

KIND = "publish"


class PublishPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to do with the publication of the job's dataset."""

    force: bool = False
    """Replace files that another writer wrote in the store."""
    withdraw: bool = False


class IndexSize(Struct, frozen=True, kw_only=True):
    """Number of distinct values of an index, and bytes of its file."""

    values: int
    bytes: int


class PublishReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """What readers of the publication see now."""

    outcome: str
    """`published`, `up-to-date` or `withdrawn`."""
    head: str | None = None
    partitions: int = 0
    rows: int = 0
    indices: Mapping[str, IndexSize] = {}
    skipped: tuple[str, ...] = ()
    """Columns whose index would be too large."""
    unmatched_retractions: int = 0


def spec_of(dataset: DatasetId, payload: PublishPayload) -> JobSpec:
    """Return the job to submit; an equal waiting job is joined. Jobs of one publication run one by
    one, in parallel to jobs that commit to the dataset."""
    lock = f"{KIND}:{dataset}"
    what = "withdraw" if payload.withdraw else "refresh"
    key = f"{lock}:{what}:{'force' if payload.force else 'follow'}"
    return JobSpec(KIND, dataset, to_json(payload), lock=lock, dedup_key=key)


def to_json(value: PublishPayload | PublishReceipt) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> PublishPayload:
    return convert(value, PublishPayload)


def receipt_of(value: dict[str, Any]) -> PublishReceipt:
    return convert(value, PublishReceipt)
