"""Check a merge state against its chain, and rebuild it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from odf_protocol.arrow_digest import logical_hash
from odf_protocol.arrow_schema import to_arrow
from odf_protocol.errors import BadInput
from odf_protocol.metadata.data import DataSlice
from odf_protocol.multihash import Multihash

from ...stores.ports.errors import BlockNotFound
from ...stores.ports.values import ObjectKind
from ..dataset.dataset import Dataset, InvalidInterval
from ..dataset.local_files import local_file
from .build import MANIFEST, grown, load, save
from .segments import Segment, StateDamaged
from .state import Manifest, StateSpec, merged_runs
from .store import slices_after


class StateOutdated(BadInput):
    """The state has columns that the dataset does not have any more."""


def problem_of(folder: Path, dataset: Dataset, *, deep: bool) -> str | None:
    """Return what is wrong with a state, or None. `deep` compares it with the slices."""
    manifest = load(folder)
    if manifest is None or manifest.head is None:
        return "its list of files is missing or damaged"
    head = Multihash.parse(manifest.head)
    try:
        for run in manifest.runs:
            for info in run:
                Segment.map(folder, info)
        dataset.path(after=head)
        if deep and _content(folder, manifest) != _computed(folder, manifest, dataset):
            return "it holds other rows than the slices"
    except (InvalidInterval, BlockNotFound):
        return "it is of another history"
    except (StateDamaged, StateOutdated) as bad:
        return bad.message
    return None


def rebuild(folder: Path, dataset: Dataset) -> Manifest:
    """Rebuild a state with its key and columns. Raise `StateDamaged`, `StateOutdated`."""
    manifest = load(folder)
    if manifest is None:
        raise StateDamaged("merge state: nothing tells what it was for; drop it")
    fresh = _grown(folder, manifest.spec, dataset, dataset.head())
    save(folder, fresh)
    return fresh


def _computed(folder: Path, known: Manifest, dataset: Dataset) -> Multihash:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".check-") as name:
        scratch = Path(name)
        head = Multihash.parse(str(known.head))
        return _content(scratch, _grown(scratch, known.spec, dataset, head))


def _grown(folder: Path, spec: StateSpec, dataset: Dataset, head: Multihash) -> Manifest:
    schema = _schema(spec, dataset)
    empty = Manifest(spec=spec, head=None)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".slices-") as copies:

        def local(data: DataSlice) -> Path:
            return local_file(dataset, ObjectKind.DATA, data.physical_hash, Path(copies))

        paths = (local(each) for each in slices_after(dataset, None, head))
        return grown(folder, empty, paths, head=str(head), schema=schema)


def _schema(spec: StateSpec, dataset: Dataset) -> pa.Schema:
    declared = dataset.state().data_schema
    known = to_arrow(declared) if declared is not None else pa.schema([])
    types = {field.name: str(field.type) for field in known}
    for name, kind in spec.columns:
        if types.get(name) != kind:
            raise StateOutdated(f"merge state: the dataset has no column `{name}` of type {kind}")
    return pa.schema([known.field(name).with_nullable(True) for name in spec.names])


def _content(folder: Path, manifest: Manifest) -> Multihash:
    """Return the hash of the rows of the state after merging all runs."""
    mapped = [[Segment.map(folder, info) for info in run] for run in manifest.runs]
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".merged-") as name:
        scratch = Path(name)
        infos = list(merged_runs(mapped, manifest.spec, scratch, oldest=True))

        def batches() -> Iterator[pa.RecordBatch]:
            for info in infos:
                yield Segment.map(scratch, info).batch

        first = next(batches(), None)
        return logical_hash(batches(), first.schema if first is not None else pa.schema([]))


__all__ = ["MANIFEST", "StateOutdated", "problem_of", "rebuild"]
