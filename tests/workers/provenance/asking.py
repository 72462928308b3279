"""Datasets of a bench without Spark, or with, and questions about their rows."""

from __future__ import annotations

from typing import Any

from odf_protocol.metadata.events import ExecuteTransform
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.why_job import WhyPayload, WhyStep
from odf_storage.datasets.node.rights import upstream
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.pruning.footers import FOOTERS
from odf_storage.datasets.pruning.learned import Bounds
from odf_workers.jobs.provenance.rows import Seen, find_row
from odf_workers.jobs.provenance.run import run_why
from odf_workers.jobs.provenance.witness import searching


def why(
    stores: Stores,
    bench: Any,
    dataset: Dataset,
    offset: int,
    *,
    hidden: tuple[Dataset, ...] = (),
    **more: Any,
) -> WhyStep:
    """The answer to somebody who may read all inputs but the hidden ones."""
    readable = {str(dataset.id), *map(str, upstream(stores, dataset.id))}
    payload = WhyPayload(
        dataset=str(dataset.id),
        offset=offset,
        at=more.pop("at", str(dataset.head())),
        readable=tuple(readable - {str(each.id) for each in hidden}),
        **more,
    )
    return run_why(stores, payload, bench).step


def offsets(step: WhyStep, *roles: str) -> dict[str, list[int]]:
    """The named offsets of each input, by the name of the input."""
    return {
        each.alias.rpartition("/")[2]: sorted(
            {
                offset
                for one in each.rows
                if not roles or one.role in roles
                for offset in range(one.start, one.end + 1)
            }
        )
        for each in step.why
    }


def given_by(
    stores: Stores, bench: Any, dataset: Dataset, offset: int, rows: dict[str, list[int]]
) -> int:
    """How many rows like the one with the offset the query gives of these rows of its inputs alone;
    inputs are named as in `offsets`."""
    row = find_row(dataset, offset, None, Seen(bench.memory))
    event = row.block.event
    assert isinstance(event, ExecuteTransform)
    is_stateful = event.new_checkpoint is not None
    with searching(stores, row, row.block, event, bench) as search:
        if is_stateful:
            search.plan, _, _ = search.standing([()] * len(search.inputs), None)
        names = [str(one.entry.alias.name) for one in search.inputs]
        return search.count({names.index(name): each for name, each in rows.items() if each})


def wrong_footers(bench: Any, *datasets: Dataset) -> int:
    """Have all footers state bounds that no row is within, as far as the worker knows; return of
    how many slices."""
    names = [
        str(data.physical_hash)
        for dataset in datasets
        for block in dataset.blocks()
        if (data := getattr(block.event, "new_data", None)) is not None
    ]
    far = {"event_time": Bounds("timestamp[ms, tz=UTC]", 1, 1), "city": Bounds("string", "", "")}
    wrong = [(name, column, bounds) for name in names for column, bounds in far.items()]
    bench.memory.bounds.learn(
        FOOTERS, [*wrong, *((n, "offset", Bounds("int64", -1, -1)) for n in names)]
    )
    return len(names)
