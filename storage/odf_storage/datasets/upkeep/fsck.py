"""Check that all objects exist and are whole: compare the index with the objects, both ways.

For every dataset the chain is followed back from the head of the index. Each block must be stored
as an object with the same bytes; each object that a block names must exist with the declared size
and (unless `rehash` is off) the right hash; head, alias and info beside the objects must agree
with the index. Stored objects that nothing names are notes: they are garbage, not damage. `verify`
checks rows and rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from odf_protocol.chain.definition_rules import ChainRuleBroken
from odf_protocol.codec.blocks import MAX_BLOCK_BYTES, decode_block
from odf_protocol.errors import BadInput, NotFound
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash

from ...stores.index.named_objects import NamedObject, named_objects
from ...stores.objects.layout import HEAD, dataset_path, store_path
from ...stores.ports.errors import BlockDamaged, BlockNotFound, DatasetNotFound
from ...stores.ports.values import DatasetEntry, ObjectInfo, ObjectKey, ObjectKind
from ..dataset.info import read_info
from ..integrity.healing import DAMAGED, MISSING, begin_healing, heal_here
from ..node.naming import RESERVED, first_word
from ..node.stores import Stores
from .compare import CompareThrottle, hash_of, read_up_to
from .marks import LinkMarks, LinksUnreadable, Marks, entries, is_kept_file, walk_back

MAX_LISTED = 10_000
"""Limit of problems, and of notes, that a report lists; all are counted."""

REPAIRED = "repaired"
Progress = Callable[[str, int, int], None]
"""Called with the dataset, the number of objects checked so far, and of bytes read so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckFinding:
    """One problem or note."""

    dataset: str
    """Alias; the id when the index does not know it."""
    reason: str
    message: str
    block: str | None = None
    sequence_number: int | None = None
    path: str | None = None
    """Path of the object, below the store."""
    action: str | None = None
    """Action that was taken: `quarantined`, `repaired`, or `healing` by a job."""


@dataclass(slots=True, kw_only=True)
class FsckReport:
    """Counts of what was checked, and what is wrong. Sizes are in bytes."""

    datasets: int = 0
    blocks: int = 0
    objects: int = 0
    size: int = 0
    """Bytes that were read and hashed."""
    problem_count: int = 0
    note_count: int = 0
    problems: list[FsckFinding] = field(default_factory=list)
    notes: list[FsckFinding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.problem_count == 0

    def problem(self, finding: FsckFinding) -> None:
        self.problem_count += 1
        if len(self.problems) < MAX_LISTED:
            self.problems.append(finding)

    def note(self, finding: FsckFinding) -> None:
        self.note_count += 1
        if len(self.notes) < MAX_LISTED:
            self.notes.append(finding)

    def to_data(self) -> dict[str, Any]:
        """JSON-compatible."""
        return {"ok": self.ok, **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckOptions:
    """How thoroughly to check, and what to do about problems."""

    rehash: bool = True
    """Read and hash every object; otherwise check only that it exists, and its size."""
    throttle: CompareThrottle = field(default_factory=CompareThrottle)
    quarantine: bool = False
    """Move damaged objects to quarantine, where clients cannot read them."""
    repair: bool = False
    """Write published heads and blocks again from the index, and heal other objects from copies,
    or by jobs that compute or fetch them again."""


def check_stores(
    stores: Stores,
    options: FsckOptions | None = None,
    *,
    only: Collection[DatasetEntry] | None = None,
    progress: Progress = lambda _dataset, _objects, _size: None,
) -> FsckReport:
    """Check every dataset, or `only` these. Change nothing unless the options say so."""
    report, options = FsckReport(), options or FsckOptions()
    for entry in entries(stores.registry) if only is None else only:
        if str(first_word(entry.alias)).lower() in RESERVED:
            report.note(_reserved(entry))
        try:
            _Check(stores, options, report, entry, progress).run()
        except DatasetNotFound:  # forgotten meanwhile
            continue
    if only is None:
        for dataset in stores.objects.datasets():
            _check_unregistered(stores, report, dataset)
    return report


def _check_unregistered(stores: Stores, report: FsckReport, dataset: DatasetId) -> None:
    if stores.registry.find(DatasetRef(id=dataset)) is not None:
        return
    path = str(dataset_path(dataset))
    if stores.objects.read_ref(dataset, HEAD) is not None:
        message = "a dataset that is not in the index; rebuild the index"
        finding = FsckFinding(
            dataset=str(dataset), reason="DatasetNotIndexed", message=message, path=path
        )
        report.problem(finding)
        return
    for info in stores.objects.list(dataset):
        if not is_kept_file(stores.files, info.key):
            report.note(_orphan(str(dataset), info))


@dataclass(slots=True)
class _Check:
    """The check of one dataset."""

    stores: Stores
    options: FsckOptions
    report: FsckReport
    entry: DatasetEntry
    progress: Progress
    marks: Marks = field(default_factory=Marks)
    whole: bool = True
    """Whether the whole chain and all links could be read, so that every named object is known."""
    linked: set[bytes] = field(default_factory=set)
    """Digests of objects that rows link to, to check each once."""

    def run(self) -> None:
        self.report.datasets += 1
        head = self.stores.refs.head(self.entry.id)
        links = self._links(head)
        for block in self._chain(head):
            self.report.blocks += 1
            self.marks.add_block(block)
            self._check_block(block)
            whole = [self._check_named(block, named) for named in named_objects(block.event)]
            if all(whole):
                self._check_linked(block, links)
            else:
                self.whole = self.whole and (links is None or not links.columns)
        self._check_published(head)
        if self.whole:
            self._note_orphans()

    # --- the chain --------------------------------------------------------------------------

    def _chain(self, head: Multihash) -> Iterator[HashedBlock]:
        """Yield the blocks from the head back; take them from the objects if the index fails."""
        following: Multihash | None = head
        number: int | None = None
        while following is not None:
            try:
                for block in walk_back(self.stores.blocks, self.entry.id, following):
                    yield block
                    following, number = block.prev, block.sequence_number - 1
            except (BlockNotFound, BlockDamaged):  # somewhere in a page
                found = self._one_block(following, number, is_head=number is None)
                if found is None:
                    self.whole = False
                    return
                yield found
                following, number = found.prev, found.sequence_number - 1

    def _one_block(
        self, block: Multihash | None, number: int | None, *, is_head: bool
    ) -> HashedBlock | None:
        """Return a block of the index; if it fails, report that and return the stored block."""
        if block is None:
            return None
        reason = "RefDangling" if is_head else "BlockNotFound"
        try:
            known = self.stores.blocks.find(self.entry.id, block)
        except BlockDamaged:
            known, reason = None, "BlockDamaged"
        if known is not None:
            return known
        found = self._block_of_objects(block)
        self._report_hole(block, number, reason, found)
        return found

    def _report_hole(
        self, block: Multihash, number: int | None, reason: str, found: HashedBlock | None
    ) -> None:
        hope = "the objects have it: rebuild the index" if found else "nor do the objects have it"
        self._problem(
            reason,
            f"the index does not have the whole block; {hope}",
            block=str(block),
            sequence_number=number,
            path=self._path(ObjectKind.BLOCK, block),
        )

    def _block_of_objects(self, block: Multihash) -> HashedBlock | None:
        try:
            return decode_block(self._read(block) or b"", expected=block)
        except BadInput:
            return None

    def _read(self, block: Multihash) -> bytes | None:
        try:
            with self.stores.objects.open(self._key(ObjectKind.BLOCK, block)) as stream:
                return read_up_to(stream, MAX_BLOCK_BYTES)
        except NotFound:
            return None

    # --- objects ----------------------------------------------------------------------------

    def _check_block(self, block: HashedBlock) -> None:
        key = self._key(ObjectKind.BLOCK, block.hash)
        if not self.options.rehash:
            problem = _difference(self._size(key), len(block.raw))
        else:
            raw = self._read(block.hash)
            self._count_read(len(raw or b""))
            problem = _difference(raw if raw is None else len(raw), len(block.raw))
            if problem is None and raw != block.raw:
                problem = "HashMismatch", "its bytes are others"
        self._count_object()
        if problem is None:
            return
        action = self._act_on_block(key, block.raw, missing=problem[0] == "ObjectMissing")
        self._object_problem(block, key, *problem, action=action)

    def _act_on_block(self, key: ObjectKey, raw: bytes, *, missing: bool) -> str | None:
        """Repair or quarantine a block; the index has its right bytes, so it is not lost."""
        if self.options.repair:
            if heal_here(self.stores, key, MISSING if missing else DAMAGED) is None:
                self.stores.objects.put(key, (raw,))
            return REPAIRED
        return None if missing else self._quarantine(key)

    def _links(self, head: Multihash) -> LinkMarks | None:
        """Return the links; None if the chain is too damaged for its schema to be known. Other
        checks report that damage."""
        try:
            return LinkMarks(self.stores, self.entry.id, head, self.stores.objects.open)
        except (BlockNotFound, BlockDamaged, ChainRuleBroken):
            self.whole = False
            return None

    def _check_linked(self, block: HashedBlock, links: LinkMarks | None) -> None:
        """Check the objects that rows of the block's slice link to. If the slice cannot be read,
        the check of the dataset is not `whole`, so that no orphans are noted."""
        try:
            for linked in links.of(block) if links is not None else ():
                self.marks.add(ObjectKind.DATA, linked)
                if linked.digest not in self.linked:
                    self.linked.add(linked.digest)
                    self._check_object(block, self._key(ObjectKind.DATA, linked), None)
        except LinksUnreadable:
            self.whole = False

    def _check_named(self, block: HashedBlock, named: NamedObject) -> bool:
        return self._check_object(block, self._key(named.kind, named.hash), named.size)

    def _check_object(self, block: HashedBlock, key: ObjectKey, declared: int | None) -> bool:
        """Check an object; return whether it is whole, or healed. `declared` is None for a linked
        object, since no block declares its size."""
        self._count_object()
        size = self._size(key)
        problem = _difference(size, size or 0 if declared is None else declared)
        if problem is None and self.options.rehash:
            problem = self._hash_problem(key)
        if problem is None:
            return True
        action = self._act_on_named(key, problem[0])
        self._object_problem(block, key, *problem, action=action)
        return action == REPAIRED

    def _act_on_named(self, key: ObjectKey, reason: str) -> str | None:
        """Quarantine and heal an object as far as possible, if the options say so; return the
        action."""
        options = self.options
        missing = reason == "ObjectMissing"
        if not (options.repair or (options.quarantine and not missing)):
            return None
        if reason == "SizeMismatch" and self._hash_problem(key) is None:
            return None  # the object is whole: the size in the block is wrong
        if heal_here(self.stores, key, MISSING if missing else DAMAGED) is not None:
            return REPAIRED
        if options.repair and begin_healing(self.stores, key):
            return "healing"
        return None if missing or self._size(key) is not None else "quarantined"

    def _hash_problem(self, key: ObjectKey) -> tuple[str, str] | None:
        try:
            with self.stores.objects.open(key) as stream:
                actual, size = hash_of(stream, self.options.throttle)
        except NotFound:
            return "ObjectMissing", "it is not there"
        self._count_read(size)
        if actual == key.hash:
            return None
        return "PhysicalHashMismatch", f"its bytes hash to {actual}"

    def _quarantine(self, key: ObjectKey) -> str | None:
        if self.options.quarantine and self.stores.objects.quarantine(key):
            return "quarantined"
        return None

    # --- beside the objects -----------------------------------------------------------------

    def _check_published(self, head: Multihash) -> None:
        objects, entry = self.stores.objects, self.entry
        found = []
        published = objects.read_ref(entry.id, HEAD)
        if published != head and head == self.stores.refs.head(entry.id):
            found.append(("PublishedHeadDiffers", f"refs/head says {published}, the index {head}"))
        alias = objects.read_alias(entry.id)
        if alias is None or str(alias) != str(entry.alias):
            found.append(("PublishedAliasDiffers", f"info/alias says {alias}"))
        info = read_info(objects, entry.id)
        known = (entry.visibility, entry.created_at)
        if info is None or (info.visibility, info.created_at) != known:
            found.append(("PublishedInfoDiffers", "info/node does not say what the index says"))
        if found and self.options.repair:
            self.stores.publish(entry.id)
        for reason, message in found:
            action = "repaired" if self.options.repair else None
            path = str(dataset_path(entry.id))
            self._problem(reason, message, path=path, action=action)

    def _note_orphans(self) -> None:
        """Note the objects that the head does not lead to."""
        self.marks.settle()
        for info in self.stores.objects.list(self.entry.id):
            if not self.marks.has(info.key.kind, info.key.hash):
                self.report.note(_orphan(str(self.entry.alias), info))

    # --- reporting --------------------------------------------------------------------------

    def _object_problem(
        self, block: HashedBlock, key: ObjectKey, reason: str, message: str, *, action: str | None
    ) -> None:
        self._problem(
            reason,
            f"the {key.kind} object: {message}",
            block=str(block.hash),
            sequence_number=block.sequence_number,
            path=str(store_path(key)),
            action=action,
        )

    def _problem(self, reason: str, message: str, **more: Any) -> None:
        alias = str(self.entry.alias)
        self.report.problem(FsckFinding(dataset=alias, reason=reason, message=message, **more))

    def _size(self, key: ObjectKey) -> int | None:
        info = self.stores.objects.stat(key)
        return None if info is None else info.size

    def _count_read(self, size: int) -> None:
        self.report.size += size

    def _count_object(self) -> None:
        self.report.objects += 1
        self.progress(str(self.entry.alias), self.report.objects, self.report.size)

    def _key(self, kind: ObjectKind, object_hash: Multihash) -> ObjectKey:
        return ObjectKey(self.entry.id, kind, object_hash)

    def _path(self, kind: ObjectKind, object_hash: Multihash) -> str:
        return str(store_path(self._key(kind, object_hash)))


def _difference(actual: int | None, declared: int) -> tuple[str, str] | None:
    if actual is None:
        return "ObjectMissing", "it is not there"
    if actual != declared:
        return "SizeMismatch", f"{declared} bytes were declared, it has {actual}"
    return None


def _reserved(entry: DatasetEntry) -> FsckFinding:
    """Return the note for a dataset whose name was reserved after its creation."""
    message = "some of its addresses are the node's own: rename it, or what lies below them"
    return FsckFinding(dataset=str(entry.alias), reason="ReservedName", message=message)


def _orphan(dataset: str, info: ObjectInfo) -> FsckFinding:
    return FsckFinding(
        dataset=dataset,
        reason="Orphan",
        message=f"nothing names this {info.key.kind} object of {info.size} bytes",
        path=str(store_path(info.key)),
    )
