"""Follow the logs of nodes leaf by leaf, and compare them with the heads that the nodes serve.

What a log said is kept below `monitored` in the settings, so that the next run reads what is new.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.trust.checkpoints import LogCheckpoint
from odf_protocol.trust.heads import HeadKind, HeadRecord, logged_name, read_record
from odf_protocol.trust.judging import HeadProof, Verdict, Word
from odf_protocol.trust.merkle import GrowingTree, leaf_hash
from odf_protocol.trust.notes import Note, NoteKey, decoded, encoded, signers
from odf_protocol.trust.tiles import MAX_ENTRY_BYTES, WIDTH, tile_of, unbundled
from odf_protocol.typed import convert

from ..nodes.home import read_file, write_file
from ..nodes.http import open_http
from ..nodes.limits import LIMITS
from ..nodes.node_api import NodeApi, NothingThere
from .trust import Evidence, HeadFinding, KnownLog, LogMemory, first_seen, is_another, tile_at

MONITORED = "monitored"
MAX_STATE_BYTES = 256 * 1024 * 1024
BUNDLE_BYTES = WIDTH * (2 + MAX_ENTRY_BYTES)
ATTEMPTS, PAUSE_S = 3, 1.0
"""How often, and after how long, a head is looked at again that the log does not have yet."""


class Newest(msgspec.Struct, frozen=True, array_like=True):
    """The newest leaf of a dataset."""

    leaf: int
    kind: str
    block: str


class Followed(msgspec.Struct, kw_only=True):
    """What all leaves of a log said up to now, and the roots to which more can be appended."""

    key: str = ""
    size: int = 0
    edge: list[str] = []
    heads: dict[str, Newest] = {}


@dataclass(frozen=True, slots=True)
class ListedDataset:
    """A dataset that a node lists."""

    base: str
    id: DatasetId


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a look at a node found."""

    size: int
    datasets: int
    findings: tuple[HeadFinding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitor:
    """Follows the log of one node; `node` ends in `/`."""

    node: str
    token: str | None = None
    memory: LogMemory = field(default_factory=LogMemory)
    sleep: Callable[[float], None] = time.sleep

    def look(self) -> Report:
        """Read what is new in the log, and compare all heads with it.

        Raises:
            NothingThere: the node keeps no log. SignatureWrong, MalformedNote, MalformedTile,
            MalformedHeadRecord: what it shows is no log of heads.
        """
        limits = replace(LIMITS, metadata_bytes=BUNDLE_BYTES)
        with open_http(limits) as http:
            there = NodeApi(self.node, self.token, http=http, limits=limits)
            followed, verdict = self._followed(there)
            if verdict is not None:
                return self._stopped(followed, verdict)
            listed = [
                ListedDataset(
                    f"{self.node}{each.get('alias')}/", DatasetId.parse(str(each.get("id")))
                )
                for each in there.datasets()
            ]
            wrong = listed
            for attempt in range(ATTEMPTS):
                if attempt:  # heads moved, or the log is a moment behind
                    self.sleep(PAUSE_S)
                    followed, verdict = self._followed(there)
                    if verdict is not None:
                        return self._stopped(followed, verdict)
                differ = dict[ListedDataset, str]()
                for each in wrong:
                    here = NodeApi(each.base, self.token, http=http, limits=limits)
                    if why := _difference(here, each.id, followed):
                        differ[each] = why
                wrong = list(differ)
                if not wrong:
                    break
        findings = tuple(
            HeadFinding(Verdict(word=Word.UNLOGGED, why=f"{each.base}: {why}"), True)
            for each, why in differ.items()
        )
        return Report(size=followed.size, datasets=len(listed), findings=findings)

    def _followed(self, there: NodeApi) -> tuple[Followed, Verdict | None]:
        """Read the leaves up to the newest checkpoint. Return what they say, and what contradicts
        what was seen before."""
        note = Note.parse(there.raw("log/checkpoint"))
        checkpoint = LogCheckpoint.parse(note.text)
        known = self.memory.all().get(self.node)
        if known is None or is_another(self.node, known, note):
            known = first_seen(there, note)
        key = NoteKey.parse(known.key)
        if key not in signers(note, [key]) or checkpoint.origin != key.name:
            raise BadInput(
                "SignatureWrong",
                f"the log is not signed by {known.key}; if its key has changed, see that it is the "
                f"right one and run `odf-node trust forget {self.node}`",
            )
        followed = read_file(self._path, Followed, most=MAX_STATE_BYTES)
        if followed.key != known.key or not known.note:  # never seen, or forgotten
            followed = Followed(key=known.key)
        seen = Note.parse(known.note.encode()) if known.note else None
        verdict = self._continued(there, followed, note, seen)
        if verdict is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self.memory.keep(self.node, KnownLog(key=known.key, note=str(note)))
            write_file(self._path, followed)
        return followed, verdict

    @property
    def _path(self) -> Path:
        name = hashlib.sha256(self.node.encode()).hexdigest()[:16]
        return self.memory.folder / MONITORED / f"{name}.json"

    def _continued(
        self, there: NodeApi, followed: Followed, note: Note, seen: Note | None
    ) -> Verdict | None:
        """Add the leaves up to a checkpoint; return what speaks against it."""
        checkpoint = LogCheckpoint.parse(note.text)
        old = None if seen is None else LogCheckpoint.parse(seen.text)
        most = max(followed.size, old.size if old else 0)
        if checkpoint.size < most:
            why = f"the log has {checkpoint.size} leaves, and it had {most} before"
            return Verdict(word=Word.ROLLED_BACK, why=why, note=note, against=seen)
        tree = GrowingTree(followed.size, [decoded(each, "a root") for each in followed.edge])
        roots = {tree.size: tree.root}
        for number, entry in enumerate(_entries(there, followed.size, checkpoint.size), tree.size):
            record = read_record(entry)
            if isinstance(record, HeadRecord):
                newest = Newest(number, record.kind.value, str(record.block))
                followed.heads[record.name] = newest
            tree.append(leaf_hash(entry))
            if old is not None and tree.size == old.size:
                roots[tree.size] = tree.root
        if old is not None and roots.get(old.size, old.root) != old.root:
            why = f"the first {old.size} leaves are not those that the node signed before"
            return Verdict(word=Word.SPLIT_VIEW, why=why, note=note, against=seen)
        if tree.root != checkpoint.root:
            why = f"the {tree.size} leaves that the node shows are not those that it signed"
            return Verdict(word=Word.SPLIT_VIEW, why=why, note=note, against=seen)
        followed.size, followed.edge = tree.size, [encoded(each) for each in tree.edge]
        return None

    def _stopped(self, followed: Followed, verdict: Verdict) -> Report:
        """Write a contradiction down, and return it alone."""
        evidence = Evidence(
            word=verdict.word.value,
            why=verdict.why,
            key=self.memory.all()[self.node].key if verdict.against else "",
            note=str(verdict.note),
            against=None if verdict.against is None else str(verdict.against),
        )
        written = self.memory.write_evidence(evidence) if verdict.against else None
        finding = HeadFinding(verdict, True, written)
        return Report(size=followed.size, datasets=0, findings=(finding,))


def _entries(there: NodeApi, first: int, size: int) -> Iterator[bytes]:
    """Yield the leaves of a log of that size, from `first` on."""
    for number in range(first // WIDTH, -(-size // WIDTH)):
        tile = tile_of(None, number, size)
        entries = unbundled(tile_at(there, tile))
        if len(entries) != tile.width:
            raise BadInput("MalformedTile", f"tile {tile.path} is not of its length")
        yield from entries[max(0, first - number * WIDTH) :]


def _difference(here: NodeApi, dataset: DatasetId, followed: Followed) -> str | None:
    """Return what the served head of a dataset has against the newest leaf, or None."""
    try:
        head = here.raw("refs/head").decode("ascii", "replace").strip()
    except NothingThere:  # deleted meanwhile
        return None
    names = [logged_name(dataset, None)]
    if not _says(followed, names, head):  # a private one, or one that was private
        with suppress(NodeError):
            salt = convert(here.look("head-proof"), HeadProof).salt
            names.append(logged_name(dataset, decoded(salt, "the salt")))
    if _says(followed, names, head):
        return None
    newest = _newest(followed, names)
    if newest is None:
        return f"the log has no leaf of {dataset}, whose head is {head[:100]}"
    return (
        f"leaf {newest.leaf} of the log, the newest of it, says {newest.kind} {newest.block}; "
        f"the node serves {head[:100]}"
    )


def _newest(followed: Followed, names: list[str]) -> Newest | None:
    found = [followed.heads[name] for name in names if name in followed.heads]
    return max(found, key=lambda each: each.leaf, default=None)


def _says(followed: Followed, names: list[str], head: str) -> bool:
    """Return whether the newest leaf of a dataset is of this head."""
    newest = _newest(followed, names)
    return newest is not None and newest.block == head and newest.kind != HeadKind.DELETE


def report_data(node: str, report: Report) -> dict[str, Any]:
    """Return what a look found, for JSON."""
    alarms = [each.to_data() for each in report.findings]
    return {"node": node, "size": report.size, "datasets": report.datasets, "alarms": alarms}
