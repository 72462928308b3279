"""The contract of a healing job: one object that is not whole is made or fetched again.

A worker makes it again (`KIND`: the rows or the state of a derivative, by a replay); what a mirror
holds is fetched from its remote by the service (`FETCH`).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from odf_node.protocol.multihash import Multihash
from odf_node.protocol.typed import convert

from ...stores.ports.values import JobSpec, ObjectKey, ObjectKind

KIND, FETCH = "heal", "heal-from-remote"


class HealPayload(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which object of the job's dataset."""

    kind: str
    hash: str


class HealReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of it."""

    kind: str
    hash: str
    healed_from: str


def spec_of(key: ObjectKey, kind: str) -> JobSpec:
    """The job; one that waits already is joined. It changes no head, so it keeps nobody waiting."""
    payload = HealPayload(kind=key.kind.value, hash=str(key.hash))
    dedup = f"{kind}:{key.dataset}:{key.kind}:{key.hash}"
    return JobSpec(kind, key.dataset, to_json(payload), dedup_key=dedup)


def key_of(spec: JobSpec) -> ObjectKey:
    """Raises `ValueError` for what is no healing job."""
    if spec.dataset is None:
        raise ValueError("a healing job names a dataset")
    payload = convert(spec.payload, HealPayload)
    return ObjectKey(spec.dataset, ObjectKind(payload.kind), Multihash.parse(payload.hash))


def to_json(value: HealPayload | HealReceipt) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))
