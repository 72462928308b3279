"""Check the head of a dataset against the log of its node, and remember what the log said.

The key of a node is taken at the first use and kept, as ssh does, with the newest checkpoint. A
contradiction is written to a file that anybody can check (`odf-node evidence`).
"""

from __future__ import annotations

import hashlib
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import msgspec

from odf_protocol.errors import BadInput, Conflict, Damaged, NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
from odf_protocol.trust.checkpoints import MAX_POLICY_BYTES, NOBODY, LogCheckpoint, LogProof, Policy
from odf_protocol.trust.heads import UNNAMED
from odf_protocol.trust.judging import (
    HeadProof,
    SeenLog,
    Verdict,
    Wanted,
    Word,
    is_contradicted,
    judge,
)
from odf_protocol.trust.merkle import consistency_path
from odf_protocol.trust.notes import Note, NoteKey
from odf_protocol.trust.tiles import Tile, tile_nodes
from odf_protocol.typed import convert
from odf_storage.runtime.clock import parse_duration

from ..nodes.home import Seconds, config_folder, is_home, read_file, write_file
from ..nodes.http import open_http
from ..nodes.limits import LIMITS, ClientLimits
from ..nodes.node_api import NodeApi, NothingThere
from ..nodes.notices import Notice
from ..nodes.remotes import Location
from ..nodes.repositories import Repository
from ..transfer.folder import FolderRepository
from ..transfer.receive import ChainReader
from .attestations import take

LOGS, EVIDENCE, POLICY = "logs.json", "evidence", "policy"
LOG_PATHS = ("../log", "../../log")
"""Where a log lies, seen from a dataset: nodes have addresses of one or two words."""
MAX_EVIDENCE_BYTES = 1024 * 1024
COSIGNED_S, LOOK_AGAIN_S = 3.0, 0.3
CONTRADICTIONS = (Word.ROLLED_BACK, Word.SPLIT_VIEW)


class KnownLog(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a log, and the newest checkpoint of it that was seen."""

    key: str
    note: str = ""


class _File(msgspec.Struct, kw_only=True):
    logs: dict[str, KnownLog] = {}
    seeds: dict[str, str] = {}


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Two notes that one key signed, and why they do not go together."""

    word: str
    why: str
    key: str
    note: str
    against: str | None = None
    shown: HeadProof | None = None


@dataclass(frozen=True, slots=True)
class HeadFinding:
    """What the log of a node says of a head."""

    verdict: Verdict
    is_alarm: bool = False
    evidence: Path | None = None

    @property
    def text(self) -> str:
        written = f"; evidence: {self.evidence}" if self.evidence else ""
        return f"log of heads: {self.verdict.word} ({self.verdict.why}{written})"

    def require(self) -> None:
        """Raise `LogContradicted` if the log does not vouch for the head as was asked for."""
        if self.is_alarm:
            raise Damaged("LogContradicted", self.text, **self.to_data())

    def to_data(self) -> dict[str, Any]:
        evidence = None if self.evidence is None else str(self.evidence)
        return {"word": self.verdict.word.value, "why": self.verdict.why, "evidence": evidence}


class LogMemory:
    """The logs that a user has seen, by the address of their node, in `logs.json`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = config_folder() if folder is None else folder

    @property
    def _path(self) -> Path:
        return self.folder / LOGS

    def all(self) -> dict[str, KnownLog]:
        return read_file(self._path, _File).logs

    def find(self, base: str) -> tuple[str, KnownLog] | None:
        """Return the log of the node that a dataset is on, with the address of the node."""
        found = [(node, log) for node, log in self.all().items() if base.startswith(node)]
        return max(found, key=lambda each: len(each[0]), default=None)

    def keep(self, node: str, log: KnownLog) -> None:
        known = read_file(self._path, _File)
        known.logs[node] = log
        self._write(known)

    def forget(self, node: str) -> bool:
        known = read_file(self._path, _File)
        was_known = known.logs.pop(node, None) is not None
        if was_known:
            self._write(known)
        return was_known

    def seed(self, base: str) -> Multihash | None:
        """Return the first block of the dataset that was at this address."""
        text = read_file(self._path, _File).seeds.get(base)
        return None if text is None else Multihash.parse(text)

    def keep_seed(self, base: str, seed: Multihash) -> None:
        known = read_file(self._path, _File)
        known.seeds[base] = str(seed)
        self._write(known)

    def _write(self, known: _File) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_file(self._path, known)
        except OSError as unwritable:
            why = f"{self._path} cannot be written ({unwritable}), so logs are not remembered"
            warnings.warn(Notice(why), stacklevel=2)

    def write_evidence(self, evidence: Evidence) -> Path:
        raw = msgspec.json.encode(evidence)
        folder = self.folder / EVIDENCE
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{hashlib.sha256(raw).hexdigest()[:16]}.json"
        write_file(path, evidence)
        return path


def policy_at(path: Path | None, folder: Path | None = None) -> Policy:
    """Read a policy, by default the user's own; without one no witness is needed."""
    own = (config_folder() if folder is None else folder) / POLICY
    if path is None and not own.exists():
        return Policy()
    with (path or own).open("rb") as stream:
        return Policy.parse(stream.read(MAX_POLICY_BYTES + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadCheck:
    """Asks nodes for proofs of heads, and judges them."""

    memory: LogMemory
    wanted: Wanted
    limits: ClientLimits = LIMITS
    clock: Seconds = time.time
    cosigned_s: float = COSIGNED_S

    def check(
        self, base: str, dataset: DatasetId, head: Multihash, *, token: str | None = None
    ) -> HeadFinding:
        """Return what the log of the node at `base` says of the head of the dataset there.

        Nodes ask their witnesses after a head has moved. So where a policy wants signatures of
        witnesses that a log lacks, it is looked at again for `cosigned_s` seconds.

        Raises:
            LogGone: the node showed a log before, and shows none now.
            SignatureWrong, MalformedNote, …: what it shows is no proof.
        """
        deadline = time.monotonic() + self.cosigned_s
        while True:
            found = self._look(base, dataset, head, token)
            lacks = found.is_alarm and found.verdict.word is Word.UNWITNESSED
            if not lacks or time.monotonic() >= deadline:
                return found
            time.sleep(LOOK_AGAIN_S)

    def _look(
        self, base: str, dataset: DatasetId, head: Multihash, token: str | None
    ) -> HeadFinding:
        known = self.memory.find(base)
        with open_http(self.limits) as http:
            here = NodeApi(base, token, http=http, limits=self.limits)
            try:
                shown = here.look("head-proof")
            except (Conflict, NothingThere) as none:
                is_gone = isinstance(none, NothingThere)
                if known is not None and not (is_gone and is_passing(*known)):
                    raise Damaged(
                        "LogGone",
                        f"{known[0]} showed a log of heads before, and shows none now: "
                        f"{none.message}",
                    ) from None
                return _unlogged(none.message)
            except NodeError as other:
                if known is not None:
                    raise
                return _unlogged(other.message)
            proof = convert(shown, HeadProof)
            shown_note = LogProof.parse(proof.proof.encode()).checkpoint
            if known is not None and is_another(*known, shown_note):
                why = f"another node than before answers at {known[0]}; its log is taken as new"
                warnings.warn(Notice(why), stacklevel=2)
                known = None
            node = _node_of(base, str(shown.get("log")), known)
            there = NodeApi(node, token, http=http, limits=self.limits)
            log = known[1] if known else first_seen(there, shown_note)
            verdict = self._judged(dataset, head, proof, log, there)
            if verdict.word is Word.UNLOGGED and _moved(here, head):
                return _unlogged("the head moved meanwhile; run the command again")
        return self._concluded(node, log, verdict, proof)

    def _judged(
        self, dataset: DatasetId, head: Multihash, proof: HeadProof, log: KnownLog, there: NodeApi
    ) -> Verdict:
        note = Note.parse(log.note.encode()) if log.note else None

        def between(old: int, size: int) -> list[bytes]:
            return consistency_path(old, size, tile_nodes(partial(tile_at, there), size))

        seen = SeenLog(key=NoteKey.parse(log.key), note=note)
        return judge(dataset, head, proof, seen, self.wanted, between=between, now_s=self.clock())

    def _concluded(
        self, node: str, log: KnownLog, verdict: Verdict, proof: HeadProof
    ) -> HeadFinding:
        """Remember the checkpoint, or write down what contradicts it."""
        if verdict.word in CONTRADICTIONS:
            evidence = Evidence(
                word=verdict.word.value,
                why=verdict.why,
                key=log.key,
                note=str(verdict.note),
                against=None if verdict.against is None else str(verdict.against),
                shown=proof,
            )
            return HeadFinding(verdict, True, self.memory.write_evidence(evidence))
        if verdict.word is Word.UNLOGGED:
            return HeadFinding(verdict, True)
        if verdict.note is not None and _size(str(verdict.note)) >= _size(log.note):
            self.memory.keep(node, KnownLog(key=log.key, note=str(verdict.note)))
        asked = self.wanted.policy.quorum != NOBODY
        is_alarm = verdict.word is Word.STALE or (asked and verdict.word is not Word.CONFIRMED)
        return HeadFinding(verdict, is_alarm)


def check_head(
    location: Location,
    dataset: DatasetId,
    head: Multihash,
    token: str | None,
    *,
    fresh: str | None = None,
    policy: Path | None = None,
) -> HeadFinding | None:
    """Check a head against the log of its node; None if it is on no node.

    `fresh` is the greatest age of what was signed, as in `10m`; `policy` a file in place of the
    user's own.
    """
    if not location.base:
        return None
    fresh_s = None if fresh is None else parse_duration(fresh).total_seconds()
    wanted = Wanted(policy=policy_at(policy), fresh_s=fresh_s)
    check = HeadCheck(memory=LogMemory(), wanted=wanted)
    return check.check(location.base, dataset, head, token=token)


def dataset_of(location: Location, repository: Repository, head: Multihash) -> DatasetId:
    """Return the id that the first block of a dataset says. Where that was found once is noted, so
    that the chain is not walked each time."""
    memory, reader = LogMemory(), ChainReader(repository)
    noted = memory.seed(location.base)
    if noted is not None:
        with suppress(NodeError):  # another dataset is there now
            return reader.dataset(noted)
    seed = reader.chain(head)[0].hash
    memory.keep_seed(location.base, seed)
    return reader.dataset(seed)


def after_pull(
    source: Location, folder: Path, head: Multihash, token: str | None, **wanted: Any
) -> HeadFinding | None:
    """Take the attestations of a dataset that was pulled into a folder, and check its head as
    `check_head` does."""
    if not source.base:
        return None
    dataset = dataset_of(source, FolderRepository(folder), head)
    take(folder, source, dataset, token)
    return check_head(source, dataset, head, token, **wanted)


def proven_by(evidence: Evidence) -> str | None:
    """Return what the evidence proves to anybody, or None if the log is needed to decide.

    Raises:
        SignatureWrong: a note is not signed by the key.
    """
    key, note = NoteKey.parse(evidence.key), Note.parse(evidence.note.encode())
    if evidence.against is not None:
        other = Note.parse(evidence.against.encode())
        if is_contradicted(note, other, key):
            size = LogCheckpoint.parse(note.text).size
            return f"{key.name} signed two different logs of {size} leaves"
        return None
    is_contradicted(note, note, key)  # the signature
    if evidence.shown is None:
        return None
    record = evidence.shown.leaf.split("\n")
    dataset = DatasetId.parse(record[1]) if record[1:2] and record[1].startswith("did:") else None
    if dataset is None:
        return None
    seen = SeenLog(key=key)
    verdict = judge(
        dataset,
        Multihash.parse(record[4] if len(record) > 4 else ""),
        evidence.shown,
        seen,
        Wanted(),
        between=lambda _old, _size: [],
        now_s=0.0,
    )
    return verdict.why if verdict.word is Word.ROLLED_BACK else None


def _unlogged(why: str) -> HeadFinding:
    return HeadFinding(Verdict(word=Word.UNLOGGED, why=why))


def _node_of(base: str, path: str, known: tuple[str, KnownLog] | None) -> str:
    """Return the address of the node that a dataset is on."""
    node = urljoin(base, path).removesuffix("log")
    if path not in LOG_PATHS or (known is not None and known[0] != node):
        raise BadInput(
            "HeadProofWrong",
            f"{base} names its log as {path[:80]!r}, which is not where it was or may be",
        )
    return node


def is_passing(node: str, log: KnownLog) -> bool:
    """Return whether a node may be gone the next day, and another one in its place: it is on this
    machine, and its log has no name but its key. Whoever answers there has the machine anyway."""
    origin = NoteKey.parse(log.key).name
    return is_home(node, None) and origin.partition("/")[0] == UNNAMED


def is_another(node: str, log: KnownLog, note: Note) -> bool:
    """Return whether the checkpoint is that of another node in the place of a passing one."""
    return (
        is_passing(node, log)
        and LogCheckpoint.parse(note.text).origin != NoteKey.parse(log.key).name
    )


def first_seen(there: NodeApi, note: Note) -> KnownLog:
    """Return the log under the key that the node publishes and that signed the checkpoint."""
    origin = LogCheckpoint.parse(note.text).origin
    signed = {line.key_id for line in note.lines}
    for each in there.look("system/keys").get("keys", ()):
        key = NoteKey(origin, DatasetId.parse_did_key(str(each.get("id"))).key)
        if key.id in signed:
            return KnownLog(key=str(key))
    raise BadInput("SignatureWrong", f"none of the keys of the node signed the log {origin[:80]!r}")


def tile_at(there: NodeApi, tile: Tile) -> bytes:
    """Return a file of the log of a node. Raises `MalformedTile`."""
    try:
        return there.raw(f"log/tile/{tile.path}")
    except NothingThere as none:
        raise BadInput("MalformedTile", f"the log lacks tile {tile.path}: {none.message}") from None


def _moved(here: NodeApi, head: Multihash) -> bool:
    return here.raw("refs/head").decode(errors="replace").strip() != str(head)


def _size(note: str) -> int:
    return LogCheckpoint.parse(Note.parse(note.encode()).text).size if note else 0
