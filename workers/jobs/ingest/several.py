"""Small posts to several datasets: read one after the other, committed by one transaction.

Each dataset has its own slice, block and compare-and-swap, as if it were alone; shared is what
costs by the transaction and by the wait for the disk. Only what can share a slice (`joined.py`)
comes this way. Whatever cannot, or goes wrong, is left to `group.py`, which says why.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from odf_node.protocol.chain.state import ChainState
from odf_node.protocol.errors import NodeError
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.node.commits import Commit, commit_all
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.runtime.context import part_of
from odf_node.storage.runtime.tracing import span
from odf_node.storage.stores.ports.values import JobEnd, JobId

from ..work.context import WorkerContext
from .group import Batch, Failure, IngestGroup, Ready
from .lines import Body, ReadTogether
from .run import put_slices


@dataclass(frozen=True, slots=True)
class _Share:
    """What one dataset has to commit."""

    dataset: Dataset
    ready: Ready

    def commit(self) -> Commit:
        expected = self.ready.blocks[0].prev
        if expected is None:
            raise AssertionError("unreachable: a batch continues a chain")
        return Commit(
            dataset=self.dataset,
            blocks=self.ready.blocks,
            expected=expected,
            ended=self.ready.ends,
            slices=self.ready.in_memory(),
        )


def run_several(
    stores: Stores,
    context: WorkerContext,
    groups: Sequence[Sequence[Batch]],
    *,
    worker: str,
    failure: Failure,
) -> Iterator[JobEnd]:
    """Bring groups of different datasets to their end; the ends of those for which that worked.

    Raises what is not about one dataset; some may have ended all the same.
    """
    with tempfile.TemporaryDirectory(prefix="ingest-", dir=context.scratch) as folder:
        shares, begun = [], []
        bodies: dict[JobId, Body] = {}
        for group, dataset, state in _heads(stores, groups):
            ingest = IngestGroup(dataset, context, worker=worker, finish=_none, failure=failure)
            bodies |= ingest.bodies(group, state)
            begun.append((group, dataset, state, ingest))
        known = ReadTogether(bodies, context.ingest.limits, Path(folder))
        for number, (group, dataset, state, ingest) in enumerate(begun):
            place = Path(folder) / str(number)
            first = group[0].job
            with (
                span(f"job {first.spec.kind}", "consumer", first.spec.trace) as trace,
                part_of(trace or first.spec.trace, dataset=str(dataset.id), job=first.id),
            ):
                ready = ingest.joined_only(group, state, place, known)
                if ready is not None and _puts_large(dataset, ready, context):
                    shares.append(_Share(dataset, ready))
        refused = commit_all(stores, [share.commit() for share in shares])
    for share, error in zip(shares, refused, strict=True):
        if error is None:
            yield from share.ready.ends


def _heads(
    stores: Stores, groups: Sequence[Sequence[Batch]]
) -> list[tuple[Sequence[Batch], Dataset, ChainState]]:
    """The groups whose datasets can be read, and where those are, by one look at the index."""
    found = []
    wanted = {each.job.spec.dataset: group for group in groups for each in group[:1]}
    ids = [dataset for dataset in wanted if dataset is not None]
    with stores.reading() as reader:
        entries, heads = reader.registry.find_all(ids), reader.refs.heads(ids)
        for dataset in ids:
            if dataset in entries and dataset in heads:
                with suppress(NodeError):
                    its = Dataset(entries[dataset], stores)
                    state = reader.chain(dataset).state(heads[dataset])
                    found.append((wanted[dataset], its, state))
    return found


def _puts_large(dataset: Dataset, ready: Ready, context: WorkerContext) -> bool:
    """Put the slices that are not in memory; whether that went well."""
    try:
        large = [each for each in ready.slices if each.content is None]
        put_slices(dataset, large, context.objects, context.ingest.cut.threads)
    except NodeError:  # alone, it will say why
        return False
    return True


def _none(end: JobEnd) -> None:
    """All ends come with a commit."""
    raise AssertionError(f"unreachable: job {end.job} ends with a head move")
