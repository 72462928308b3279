"""Errors that a reader gets for an object that is damaged or missing."""

from __future__ import annotations

from odf_protocol.errors import Damaged, Unavailable

from ...stores.ports.values import ObjectKey


class ObjectDamaged(Damaged):
    """A stored object does not match its hash, and no source at hand has the right bytes."""

    def __init__(self, key: ObjectKey, problem: str, why: str | None = None) -> None:
        hope = f"; it cannot be made again: {why}" if why else ""
        super().__init__(
            f"the {key.kind} object {key.hash} is {problem} on this node{hope}. "
            "A PUT of the right bytes heals it; until then nothing is made of it",
            dataset_id=str(key.dataset),
            kind=str(key.kind),
            hash=str(key.hash),
            problem=problem,
        )
        self.key = key


class ObjectHealing(Unavailable):
    """A stored object does not match its hash, and a job is making or fetching it again."""

    def __init__(self, key: ObjectKey, problem: str) -> None:
        super().__init__(
            f"the {key.kind} object {key.hash} is {problem} on this node and is being healed; "
            "try again soon",
            dataset_id=str(key.dataset),
            kind=str(key.kind),
            hash=str(key.hash),
            problem=problem,
        )
        self.key = key
