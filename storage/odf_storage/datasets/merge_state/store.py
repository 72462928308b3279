"""All merge states of a machine: look up by dataset and key, bring up to date, limit their size.

    <folder>/fed01…/<fingerprint>/state.json, ….arrow

The chain decides. A state that is behind gets the missing slices; a state that is damaged, of
another format, or of a history that the head does not continue is rebuilt.

Check a merge state against its chain, and rebuild it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec
import pyarrow as pa

from odf_protocol.columns.arrow_digest import logical_hash
from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import AddData, DataSlice, ExecuteTransform
from odf_protocol.multihash import Multihash

from ...runtime.logs import line
from ...stores.objects.layout import dataset_folder, parse_folder
from ...stores.ports.errors import BlockNotFound
from ...stores.ports.values import ObjectKind
from ..dataset.dataset import Dataset, InvalidInterval
from ..dataset.info import local_file
from ..integrity.healing import REHASH_S, Hashed
from .build import MANIFEST, grown, load, save
from .comparable import check_hashable
from .state import (
    MergeState,
    Segment,
    SegmentInfo,
    StateDamaged,
    StateManifest,
    StateSpec,
    merged_runs,
)

VERSION = 2
FOLDER = "merge-state"
LOCK = "lock"
_log = logging.getLogger("odf.integrity")
Local = Callable[[DataSlice], Path]
"""Returns a slice of the dataset as a local file."""


def states_folder(data: Path) -> Path:
    """Return the folder of the states in a data folder."""
    return data / FOLDER


class MergeStates:
    """States below a folder, of at most `max_bytes` together; removes the least recently used."""

    def __init__(self, folder: Path, *, max_bytes: int, rehash_s: float = REHASH_S) -> None:
        """Segments that have not changed are hashed again only after `rehash_s` seconds, so that
        the cost of a lookup depends on its rows, not on the history."""
        self.folder, self.max_bytes = folder, max_bytes
        self._hashed = Hashed(seconds=rehash_s)

    def at(
        self,
        dataset: Dataset,
        head: Multihash,
        spec: StateSpec,
        schema: pa.Schema,
        local: Local,
        *,
        links_for: Callable[[int], Path | None] = lambda _: None,
    ) -> MergeState:
        """Return the state of a dataset as of a head. `schema` has the columns of the spec.

        `links_for` returns a folder for the total bytes of the state, or None; the files are linked
        into it, so that other processes can read them while the state changes. This process does
        not need the links, since the state is mapped.

        Raises:
            NotHashable: a key column has a type without a hash.
            StateDamaged: the rows are too long to be kept.
        """
        check_hashable([schema.field(name).type for name in spec.key])
        folder = self.folder / dataset_folder(dataset.id) / fingerprint(spec)
        with _locked(folder):
            for _ in range(2):
                manifest = self._current(folder, dataset, head, spec, schema, local)
                try:
                    state = MergeState(self._mapped(folder, manifest), schema)
                except StateDamaged as damage:
                    _log.error(line("merge state damaged", folder=folder, reason=damage))
                    (folder / MANIFEST).unlink(missing_ok=True)
                else:
                    break
            else:
                raise StateDamaged("merge state: written files do not read back")
            os.utime(folder / MANIFEST)
            size = sum(each.info.size for each in state.segments)
            if (links := links_for(size)) is not None:
                _link([folder / each.info.name for each in state.segments], links)
        self.trim(keep=folder)
        return state

    def _current(
        self,
        folder: Path,
        dataset: Dataset,
        head: Multihash,
        spec: StateSpec,
        schema: pa.Schema,
        local: Local,
    ) -> StateManifest:
        fresh = StateManifest(spec=spec, head=None)
        found = load(folder)
        if found is None and (folder / MANIFEST).exists():
            _log.error(line("merge state damaged", folder=folder, reason="its list of files"))
        known = found or fresh
        if known.head == str(head):
            return known
        for manifest in (known, fresh):
            try:
                slices = slices_after(dataset, manifest.head, head)
                paths = (local(each) for each in slices)
                manifest = grown(
                    folder, manifest, paths, head=str(head), schema=schema, hashed=self._hashed
                )
                save(folder, manifest)
            except StateDamaged as damage:
                _log.error(line("merge state damaged", folder=folder, reason=damage))
            except (InvalidInterval, BlockNotFound, OSError) as reason:
                _log.info(line("merge state is made anew", folder=folder, reason=reason))
            else:
                return manifest
        raise StateDamaged("merge state: it cannot be made from the chain")

    def _mapped(self, folder: Path, manifest: StateManifest) -> list[Segment]:
        return [self._segment(folder, info) for run in manifest.runs for info in run]

    def _segment(self, folder: Path, info: SegmentInfo) -> Segment:
        return Segment.map(folder, info, hashed=self._hashed)

    def trim(self, *, keep: Path | None = None) -> list[Path]:
        """Remove the least recently used states until the others fit; return their folders. A state
        that is being changed stays."""
        known = []
        for folder in self.folders():
            with suppress(OSError):
                size = sum(path.stat().st_size for path in folder.iterdir())
                when = (folder / MANIFEST).stat().st_mtime if folder != keep else float("inf")
                known.append((when, size, folder))
        total, gone = sum(size for _, size, _ in known), []
        for _, size, folder in sorted(known):
            if total <= self.max_bytes:
                break
            if _removed(folder):
                gone.append(folder)
                total -= size
        return gone

    def folders(self, dataset: DatasetId | None = None) -> list[Path]:
        """Return the folders of the states of one dataset, or of all."""
        whose = _below(self.folder) if dataset is None else [self.folder / dataset_folder(dataset)]
        return sorted(path for folder in whose for path in _below(folder) if path.is_dir())

    def drop(self, dataset: DatasetId) -> int:
        """Remove the states of a dataset; return their number."""
        count = len(self.folders(dataset))
        shutil.rmtree(self.folder / dataset_folder(dataset), ignore_errors=True)
        return count

    def sweep(self, known: Callable[[DatasetId], bool], *, dry_run: bool = False) -> list[Path]:
        """Remove the states of deleted datasets; return their folders."""
        gone = []
        for path in sorted(_below(self.folder)):
            dataset = parse_folder(path.name)
            if path.is_dir() and (dataset is None or not known(dataset)):
                gone.append(path)
                if not dry_run:
                    shutil.rmtree(path, ignore_errors=True)
        return gone


def slices_after(dataset: Dataset, after: str | None, upto: Multihash) -> Iterator[DataSlice]:
    """Yield the slices of the blocks after one, oldest first.

    Raises:
        InvalidInterval, BlockNotFound.
    """
    tail = Multihash.parse(after) if after is not None else None
    for page in dataset.pages(after=tail, upto=upto):
        for block in page:
            event = block.event
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
                yield event.new_data


def fingerprint(spec: StateSpec) -> str:
    """Return a text that is equal for equal columns, types, key, operation column and format."""
    text = msgspec.json.encode([VERSION, pa.__version__, msgspec.to_builtins(spec)])
    return hashlib.sha256(text).hexdigest()[:24]


def _link(files: Sequence[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        target = folder / file.name
        if not target.exists():
            try:
                os.link(file, target)
            except OSError:  # another file system, or one without links
                shutil.copyfile(file, target)


def _below(folder: Path) -> list[Path]:
    """Return the entries of a folder; empty if another process has removed it meanwhile."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return list(folder.iterdir())
    return []


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a state, so that one thread of one process at a time changes it; create its folder if
    necessary. Readers need no lock: mapped files stay readable after their removal."""
    with ExitStack() as open_files:
        while True:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                handle = open_files.enter_context((folder / LOCK).open("w"))
                fcntl.flock(handle, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(handle.fileno()), (folder / LOCK).stat()):
                    break
            except FileNotFoundError:  # the state was removed, and its lock file with it
                continue
        yield


def _removed(folder: Path) -> bool:
    """Remove a state unless it is locked; return whether it is gone."""
    with suppress(FileNotFoundError), (folder / LOCK).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        shutil.rmtree(folder, ignore_errors=True)
    return True


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


def rebuild(folder: Path, dataset: Dataset) -> StateManifest:
    """Rebuild a state with its key and columns. Raise `StateDamaged`, `StateOutdated`."""
    manifest = load(folder)
    if manifest is None:
        raise StateDamaged("merge state: nothing tells what it was for; drop it")
    fresh = _grown(folder, manifest.spec, dataset, dataset.head())
    save(folder, fresh)
    return fresh


def _computed(folder: Path, known: StateManifest, dataset: Dataset) -> Multihash:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".check-") as name:
        scratch = Path(name)
        head = Multihash.parse(str(known.head))
        return _content(scratch, _grown(scratch, known.spec, dataset, head))


def _grown(folder: Path, spec: StateSpec, dataset: Dataset, head: Multihash) -> StateManifest:
    schema = _schema(spec, dataset)
    empty = StateManifest(spec=spec, head=None)
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


def _content(folder: Path, manifest: StateManifest) -> Multihash:
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
