"""The contract of a mirror job: one pull from what a dataset follows.

Anybody may submit it (`spec_of`); the service runs it, not a worker: it is a transfer.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.typed import convert

from ...stores.ports.values import JobSpec

KIND = "mirror"


class MirrorPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How to pull."""

    force: bool = False
    """Follow a remote that went another way, or back: what is here is replaced."""


class MirrorReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the pull brought. `bytes` counts objects that were not here before."""

    outcome: Literal["updated", "up-to-date"]
    prev_head: str
    head: str
    blocks: int = 0
    objects: int = 0
    bytes: int = 0


def spec_of(dataset: DatasetId, payload: MirrorPayload) -> JobSpec:
    """The job; one that waits already is joined, and none runs beside other work on the dataset."""
    lock = str(dataset)
    key = f"{KIND}:{lock}:{'force' if payload.force else 'follow'}"
    return JobSpec(KIND, dataset, to_json(payload), lock=lock, dedup_key=key)


def to_json(value: MirrorPayload | MirrorReceipt) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> MirrorPayload:
    return convert(value, MirrorPayload)
