"""The contract of a mirror job: one pull from the remote that a dataset follows.

Any part of the node may submit it (`spec_of`). The service runs it, not a worker, since it is a
transfer.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from odf_protocol.identity import DatasetId
from odf_protocol.typed import convert

from ...stores.ports.values import JobSpec

KIND = "mirror"


class MirrorPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How to pull."""

    force: bool = False
    """Replace the local history if the remote has diverged or moved back."""


class MirrorReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of the pull. `bytes` counts the objects that were new."""

    outcome: Literal["updated", "up-to-date"]
    prev_head: str
    head: str
    blocks: int = 0
    objects: int = 0
    bytes: int = 0


def spec_of(dataset: DatasetId, payload: MirrorPayload) -> JobSpec:
    """Return the job to submit; an equal waiting job is joined. Its lock excludes other work on the
    dataset."""
    lock = str(dataset)
    key = f"{KIND}:{lock}:{'force' if payload.force else 'follow'}"
    return JobSpec(KIND, dataset, to_json(payload), lock=lock, dedup_key=key)


def to_json(value: MirrorPayload | MirrorReceipt) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> MirrorPayload:
    return convert(value, MirrorPayload)
