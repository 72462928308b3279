"""A healing job: repeat the execution that made a slice or a checkpoint of a derivative.

The same engine produces the same bytes from the same rows, and the job stores these under their
hash. Different bytes of the same rows are useless, since blocks name files by their hash.
"""

from __future__ import annotations

from odf_protocol.errors import NotFound
from odf_protocol.metadata.events import ExecuteTransform, HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.info import chunks
from odf_storage.datasets.integrity.healing import is_whole, note_healed, postpone_healing
from odf_storage.datasets.job_payloads.heal_job import HealReceipt
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ..transform.chains import backwards
from ..transform.replay import NotVerifiable, replay
from ..transform.result import MadeResult
from ..work.context import WorkerContext

RECOMPUTED = "recomputed"


class NotHealed(NotFound):
    """This node cannot recompute the object."""


def run_heal(
    stores: Stores, dataset: Dataset, key: ObjectKey, context: WorkerContext
) -> HealReceipt:
    """Recompute an object and store it again.

    Raises:
        NotHealed: this node cannot recompute it; the next attempt is a day later.
        ObjectHealing: one of its inputs has to be healed first.
        JobLost, …: errors that end the work without a result.
    """
    if is_whole(stores.objects, key):
        return _healed(stores, key, "here")
    found: list[Multihash] = []

    def keep(made: MadeResult) -> None:
        for part, path in (
            (made.data, made.data_path),
            (made.checkpoint, made.checkpoint_path),
        ):
            if part is not None and part.physical_hash == key.hash:
                stores.objects.put(key, chunks(path))
                found.append(key.hash)

    try:
        block = _maker(dataset, key)
        replay(stores, dataset, block, context, on_made=keep)
    except (NotVerifiable, NotHealed) as reason:
        raise _hopeless(stores, key, reason.message) from reason
    if not found:
        raise _hopeless(stores, key, f"block {block.hash} made again gives other bytes")
    return _healed(stores, key, RECOMPUTED)


def _maker(dataset: Dataset, key: ObjectKey) -> HashedBlock:
    """Return the first execution whose block names the object: later blocks with the same state
    only received it. Raises `NotHealed`."""
    found = None
    for block in backwards(dataset, dataset.head()):
        if isinstance(block.event, ExecuteTransform) and _names(block.event, key):
            found = block
    if found is None:
        raise NotHealed("no execution of the dataset made it")
    return found


def _names(event: ExecuteTransform, key: ObjectKey) -> bool:
    made = event.new_data if key.kind is ObjectKind.DATA else event.new_checkpoint
    return made is not None and made.physical_hash == key.hash


def _healed(stores: Stores, key: ObjectKey, source: str) -> HealReceipt:
    note_healed(stores, key, source)
    return HealReceipt(kind=key.kind.value, hash=str(key.hash), healed_from=source)


def _hopeless(stores: Stores, key: ObjectKey, why: str) -> NotHealed:
    postpone_healing(stores, key, why)
    return NotHealed(f"the {key.kind} object {key.hash} cannot be made again here: {why}")
