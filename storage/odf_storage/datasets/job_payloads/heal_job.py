"""The contract of a healing job, which restores one object that is damaged or missing.

A worker computes a slice or checkpoint of a derivative again, by a replay (`KIND`); the service
fetches an object of a mirror from its remote (`FETCH`).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from odf_protocol.multihash import Multihash
from odf_protocol.typed import convert

from ...stores.ports.values import JobSpec, ObjectKey, ObjectKind

KIND, FETCH = "heal", "heal-from-remote"


class HealPayload(Struct, frozen=True, kw_only=True, rename="camel"):
    """The object of the job's dataset to restore."""

    kind: str
    hash: str


class HealReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """The restored object, and its source."""

    kind: str
    hash: str
    healed_from: str


def spec_of(key: ObjectKey, kind: str) -> JobSpec:
    """Return the job to submit; an equal waiting job is joined. It changes no head, so it takes no
    lock."""
    payload = HealPayload(kind=key.kind.value, hash=str(key.hash))
    dedup = f"{kind}:{key.dataset}:{key.kind}:{key.hash}"
    return JobSpec(kind, key.dataset, to_json(payload), dedup_key=dedup)


def key_of(spec: JobSpec) -> ObjectKey:
    """Return the key of the object. Raise `ValueError` if it is not a healing job."""
    if spec.dataset is None:
        raise ValueError("a healing job names a dataset")
    payload = convert(spec.payload, HealPayload)
    return ObjectKey(spec.dataset, ObjectKind(payload.kind), Multihash.parse(payload.hash))


def to_json(value: HealPayload | HealReceipt) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))
