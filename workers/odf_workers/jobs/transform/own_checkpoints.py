"""The checkpoints from which a verification lets an execution begin: only those of this node.

Another node may commit a checkpoint that no execution made, and rows computed from it. Therefore a
replay begins from a checkpoint that an engine here committed, or from the one that the replay of
the execution before it made.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import ExecuteTransform
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import EngineNote

from ...plan.transform import TransformPlan
from .chains import backwards
from .files import InputFiles
from .iteration import checkpoint_file
from .result import Made


@dataclass(frozen=True, slots=True)
class Beginning:
    """The checkpoint from which an execution begins; None if there is none. It is not known if only
    another node has made it."""

    checkpoint: Path | None = None
    is_known: bool = True


class OwnCheckpoints:
    """The checkpoints of this node, in a verification that replays executions oldest first. The
    newest one of a replay is kept in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._kept = folder / "checkpoint"
        self._made_by: Multihash | None = None

    def beginning(
        self,
        dataset: Dataset,
        block: HashedBlock,
        plan: TransformPlan,
        note: EngineNote,
        files: InputFiles,
    ) -> Beginning:
        """Return the beginning of the execution in the block. Raises `ObjectNotFound`."""
        before = _execution_before(dataset, block)
        if before is None:
            return Beginning()
        if note.at(before.sequence_number) is not None:
            return Beginning(checkpoint_file(dataset, plan, files))
        if before.hash == self._made_by:
            return Beginning(self._kept if self._kept.exists() else None)
        return Beginning(is_known=False)

    def missing(self, dataset: Dataset, block: HashedBlock, note: EngineNote) -> list[Multihash]:
        """Return the executions, oldest first, whose replay in this order makes the checkpoint from
        which the execution in the block begins."""
        found = []
        for one in backwards(dataset, block.prev):
            if isinstance(one.event, ExecuteTransform):
                if note.at(one.sequence_number) is not None or one.hash == self._made_by:
                    break
                found.append(one.hash)
        return found[::-1]

    def keep(self, block: HashedBlock, made: Made) -> None:
        """Keep the checkpoint that the replay of a block made."""
        self._made_by = block.hash
        self._kept.unlink(missing_ok=True)
        if made.checkpoint is not None:
            shutil.copyfile(made.checkpoint_path, self._kept)


def _execution_before(dataset: Dataset, block: HashedBlock) -> HashedBlock | None:
    earlier = backwards(dataset, block.prev)
    return next((one for one in earlier if isinstance(one.event, ExecuteTransform)), None)
