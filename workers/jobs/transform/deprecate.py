"""Old versions of an engine retired: everything they computed is made again by the one at hand.

Only if every execution comes out the same is it noted that the new version stands for the old
ones. Nothing else of the dataset changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from odf_node.protocol.errors import NodeError
from odf_node.protocol.metadata.events import ExecuteTransform
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.dataset.engines import Compatible, read_note, write_note
from odf_node.storage.datasets.node.stores import Stores

from ..work.context import WorkerContext
from .replay import CUT_SHORT, NotVerifiable, replay

Progress = Callable[[int], None]
"""Called with the number of executions made again so far."""


@dataclass(slots=True, kw_only=True)
class Deprecation:
    """What came of it. Blocks by hash."""

    same: int = 0
    """Executions of older versions that came out the same."""
    differing: list[str] = field(default_factory=list)
    not_verifiable: list[str] = field(default_factory=list)
    compatible: list[str] = field(default_factory=list)
    """What was noted: engine, old version, new version."""

    @property
    def ok(self) -> bool:
        return not self.differing and not self.not_verifiable

    def to_data(self) -> dict[str, Any]:
        """JSON-compatible."""
        return {"ok": self.ok, **asdict(self)}


def deprecate(
    stores: Stores,
    dataset: Dataset,
    context: WorkerContext,
    *,
    progress: Progress = lambda _count: None,
) -> Deprecation:
    """Make again what other versions of an engine computed here, and note if all is the same.

    Executions of other nodes, whose engine nobody noted, are left out.
    """
    found, seen = Deprecation(), dict[Compatible, None]()
    note = read_note(stores.objects, dataset.id)
    count = 0
    for page in dataset.pages():
        for block in page:
            recorded = note.at(block.sequence_number)
            if not isinstance(block.event, ExecuteTransform) or recorded is None:
                continue
            try:
                made = replay(stores, dataset, block, context, newest_engine=True)
            except NotVerifiable:
                found.not_verifiable.append(str(block.hash))
                continue
            except CUT_SHORT:
                raise
            except NodeError:  # the query fails on this version
                found.differing.append(str(block.hash))
                continue
            count += 1
            progress(count)
            if made.differences:
                found.differing.append(str(block.hash))
            elif recorded.version != made.engine_version:
                found.same += 1
                seen[Compatible(made.engine, recorded.version, made.engine_version)] = None
    if found.ok and seen:
        note = read_note(stores.objects, dataset.id)  # what was computed meanwhile stays noted
        for one in seen:
            note = note.with_compatible(one)
            found.compatible.append(f"{one.engine} {one.old} {one.new}")
        write_note(stores.objects, dataset.id, note)
    return found
