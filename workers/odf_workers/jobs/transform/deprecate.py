"""Retire old versions of an engine: the present version repeats everything that they computed.

Only if every execution gives the same result, the node notes that the new version replaces the old
ones. Nothing else of the dataset changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from odf_protocol.errors import NodeError
from odf_protocol.metadata.events import ExecuteTransform
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import Compatible, read_note, write_note
from odf_storage.datasets.node.stores import Stores

from ..work.context import WorkerContext
from .replay import CUT_SHORT, NotVerifiable, replay

Progress = Callable[[int], None]
"""Called with the number of executions repeated so far."""


@dataclass(slots=True, kw_only=True)
class Deprecation:
    """Result of a deprecation. Blocks are named by hash."""

    same: int = 0
    """Number of executions of older versions that gave the same result."""
    differing: list[str] = field(default_factory=list)
    not_verifiable: list[str] = field(default_factory=list)
    compatible: list[str] = field(default_factory=list)
    """Entries noted: engine, old version, new version."""

    @property
    def ok(self) -> bool:
        return not self.differing and not self.not_verifiable

    def to_data(self) -> dict[str, Any]:
        """Return a JSON-compatible form."""
        return {"ok": self.ok, **asdict(self)}


def deprecate(
    stores: Stores,
    dataset: Dataset,
    context: WorkerContext,
    *,
    progress: Progress = lambda _count: None,
) -> Deprecation:
    """Repeat the executions that other engine versions computed here; note the versions if all
    results are the same.

    Executions of other nodes, whose engine is not noted, are left out.
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
        note = read_note(stores.objects, dataset.id)  # keep notes of executions made meanwhile
        for one in seen:
            note = note.with_compatible(one)
            found.compatible.append(f"{one.engine} {one.old} {one.new}")
        write_note(stores.objects, dataset.id, note)
    return found
