"""Hash the rows of received slices after they are committed; the dataset is marked until then."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

from msgspec.structs import replace

from odf_protocol.chain.state import EMPTY
from odf_protocol.errors import NotFound
from odf_protocol.multihash import Multihash
from odf_storage.datasets.contents.claims import SliceClaim, slice_claims
from odf_storage.datasets.contents.slice_limits import GateLimits
from odf_storage.datasets.dataset.dataset import Dataset, InvalidInterval
from odf_storage.datasets.gate.gate import DataDoesNotMatchMetadata, SliceGate
from odf_storage.datasets.job_payloads.verify_job import (
    VerifiedDataset,
    VerifyAnswer,
    VerifyPayload,
)
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.verify.pending import Unverified, read_unverified, write_unverified

AT_ONCE = 256
"""Number of slices between two checks for a lost job."""


def hash_rows(
    stores: Stores,
    dataset: Dataset,
    payload: VerifyPayload,
    limits: GateLimits,
    check: Callable[[], None],
) -> VerifyAnswer:
    """Compare the slices of an interval with their blocks, including all rows; note the result.

    A history that no longer exists counts as correct.
    """
    gate = SliceGate(replace(limits, hashed_at_once=None), judges_values=False)
    try:
        claims = _claims(dataset, payload)
    except (InvalidInterval, NotFound):
        claims = []
    problem: str | None = None
    for start in range(0, len(claims), AT_ONCE):
        check()
        try:
            gate.hold(dataset, claims[start : start + AT_ONCE])
        except DataDoesNotMatchMetadata as wrong:
            problem = wrong.message
            break
    _settle(stores, dataset, payload, problem)
    done = VerifiedDataset(
        id=str(dataset.id),
        alias=str(dataset.entry.alias),
        ok=problem is None,
        replayed=0,
        not_verifiable=0,
        engines=(),
        report={},
        error=problem,
    )
    return VerifyAnswer(ok=problem is None, head=payload.upto, datasets=(done,))


def _claims(dataset: Dataset, payload: VerifyPayload) -> list[SliceClaim]:
    after, upto = _hash(payload.after), _hash(payload.upto)
    before = EMPTY if after is None else dataset.state(after)
    return list(slice_claims(dataset.blocks(after=after, upto=upto), before))


def _settle(stores: Stores, dataset: Dataset, payload: VerifyPayload, problem: str | None) -> None:
    """Update the mark of the dataset; blocks that arrived since stay marked."""
    with stores.locks.hold(dataset.id):
        note = read_unverified(stores.objects, dataset.id)
        if note is None:
            return
        left = _left(dataset, note, payload) if problem is None else replace(note, problem=problem)
        if left != note:
            write_unverified(stores.objects, dataset.id, left)


def _left(dataset: Dataset, note: Unverified, payload: VerifyPayload) -> Unverified | None:
    """Return the note without the blocks at its start whose rows the job has found right."""
    try:
        marked = _path(dataset, note.after, note.upto)
        checked = set(_path(dataset, payload.after, payload.upto))
    except (InvalidInterval, NotFound):  # replaced since, or the push is not committed yet
        return None if note.upto == payload.upto else note
    right = list(takewhile(checked.__contains__, marked))
    if len(right) == len(marked):
        return None
    return replace(note, after=str(right[-1])) if right else note


def _path(dataset: Dataset, after: str | None, upto: str | None) -> list[Multihash]:
    """Return the hashes of `(after, upto]`, oldest first."""
    return dataset.path(after=_hash(after), upto=_hash(upto))[::-1]


def _hash(text: str | None) -> Multihash | None:
    return None if text is None else Multihash.parse(text)
