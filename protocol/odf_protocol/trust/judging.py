"""What a client concludes of the head that a node shows, in one word.

    confirmed     the log has it, and enough witnesses signed the log
    unwitnessed   the log has it; nobody else vouches for that log
    stale         what is shown is older than the client asked for
    rolled back   a newer head, or a larger log, was signed before
    split view    this log does not continue the one that the client saw
    unlogged      there is no log, or the log does not have this head

Only a contradiction of what was signed is an alarm; a reset or a compaction is a leaf as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeGuard

from msgspec import Struct

from ..errors import BadInput
from ..identity import DatasetId
from ..instant import NANOS
from ..multihash import Multihash
from .checkpoints import NOBODY, LogCheckpoint, LogProof, Policy
from .heads import HeadRecord, MapRecord, Record, logged_name, read_record
from .merkle import HASH_BYTES, MAX_PATH, is_continued, is_included, leaf_hash
from .notes import Note, NoteKey, SignatureLine, decoded, signers

MAP_LAG_S = 3600.0
"""How long a log may go on after its newest map; nodes make one every few minutes."""


class Word(StrEnum):
    CONFIRMED = "confirmed"
    UNWITNESSED = "unwitnessed"
    STALE = "stale"
    ROLLED_BACK = "rolled back"
    SPLIT_VIEW = "split view"
    UNLOGGED = "unlogged"


class Leaf(Struct, frozen=True, kw_only=True, rename="camel"):
    """A leaf with its path to the root of the checkpoint."""

    leaf: str
    index: int
    path: tuple[str, ...] = ()


class ShownMap(Leaf, frozen=True, kw_only=True, rename="camel"):
    """The leaf of the newest map, and the dataset's record below its root."""

    record: str | None = None
    record_index: int = 0
    record_path: tuple[str, ...] = ()


class HeadProof(Struct, frozen=True, kw_only=True, rename="camel"):
    """What `GET {dataset}/head-proof` answers."""

    leaf: str
    proof: str
    salt: str
    last: Leaf
    map: ShownMap


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLog:
    """What a client knows of a log: its key since the first time, and the newest checkpoint."""

    key: NoteKey
    note: Note | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a client asks for: cosignatures by a policy, and news of some age at most."""

    policy: Policy = field(default_factory=Policy)
    fresh_s: float | None = None
    map_lag_s: float = MAP_LAG_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A word with its reason. `note` is to be remembered; `against` is what it contradicts."""

    word: Word
    why: str
    note: Note | None = None
    against: Note | None = None
    signed_s: float | None = None
    """The newest time within what was signed, in seconds since 1970."""


Between = Callable[[int, int], Sequence[bytes]]
"""Fetches the path that shows that a log of one size begins that of another."""


def judge(
    dataset: DatasetId,
    head: Multihash,
    shown: HeadProof,
    seen: SeenLog,
    wanted: Wanted,
    *,
    between: Between,
    now_s: float,
) -> Verdict:
    """Return what the proof says of the head.

    Raises:
        SignatureWrong: the checkpoint is not signed by the key that the client knows.
        MalformedNote, MalformedHeadRecord: the proof cannot be read.
    """
    proof = LogProof.parse(shown.proof.encode())
    note = proof.checkpoint
    witnesses = [peer.key for _, peer in wanted.policy.witnesses]
    signed = signers(note, [seen.key, *witnesses])
    checkpoint = LogCheckpoint.parse(note.text)
    if seen.key not in signed or checkpoint.origin != seen.key.name:
        raise BadInput(
            "SignatureWrong",
            f"the log is not signed by the key known for {seen.key.name}; if the node has a new "
            "key, forget the old one with `odf-node trust forget`",
            key=str(seen.key),
        )
    found = _follows(checkpoint, seen.note, between)
    found = found or _is_logged(dataset, head, shown, proof, checkpoint)
    newest = found or _is_newest(dataset, shown, proof.index, checkpoint, wanted.map_lag_s)
    if isinstance(newest, Verdict):
        return replace(newest, note=note)
    cosigned = {key: line for key, line in signed.items() if key != seen.key}
    return _aged(cosigned, note, wanted, newest, now_s)


def _follows(checkpoint: LogCheckpoint, seen: Note | None, between: Between) -> Verdict | None:
    """Return what speaks against it that the log continues the one that was seen before."""
    if seen is None:
        return None
    old = LogCheckpoint.parse(seen.text)
    if checkpoint.size < old.size:
        return Verdict(
            word=Word.ROLLED_BACK,
            why=f"the log has {checkpoint.size} leaves, and it had {old.size} before",
            against=seen,
        )
    try:
        path = between(old.size, checkpoint.size)
    except BadInput:  # what the node gives instead of the path is none
        path = [b""]
    if not is_continued(old.size, checkpoint.size, path, old_root=old.root, root=checkpoint.root):
        return Verdict(
            word=Word.SPLIT_VIEW,
            why=f"this log of {checkpoint.size} leaves is not shown to continue that of {old.size}",
            against=seen,
        )
    return None


def _is_logged(
    dataset: DatasetId,
    head: Multihash,
    shown: HeadProof,
    proof: LogProof,
    checkpoint: LogCheckpoint,
) -> Verdict | None:
    """Return what speaks against it that the log has this head."""
    entry = shown.leaf.encode()
    record = read_record(entry)
    if not is_included(proof.index, checkpoint.size, leaf_hash(entry), proof.path, checkpoint.root):
        return Verdict(word=Word.UNLOGGED, why="the log does not have the leaf that is shown")
    if not _is_of(record, dataset, shown) or record.block != head:
        return Verdict(word=Word.UNLOGGED, why=f"the log does not have the head {head}")
    return None


def _is_newest(
    dataset: DatasetId, shown: HeadProof, index: int, checkpoint: LogCheckpoint, lag_s: float
) -> float | Verdict:
    """Return the newest time that the log tells, or what the newest map says against the head."""
    mapped, last = shown.map, shown.last
    record, end = _within(mapped, checkpoint), _within(last, checkpoint)
    if record is None or end is None:
        return Verdict(word=Word.UNLOGGED, why="the log does not have a leaf that is shown")
    if not isinstance(record, MapRecord) or last.index != checkpoint.size - 1:
        return Verdict(word=Word.UNLOGGED, why="the log shows no map of its heads")
    newest_s = max(record.at.ns, end.at.ns) / NANOS
    if (end.at.ns - record.at.ns) / NANOS > lag_s:
        return Verdict(
            word=Word.ROLLED_BACK,
            why=f"the log went on for more than {lag_s:.0f} s after the map shown",
        )
    if mapped.record is None:
        if index < mapped.index:
            return Verdict(word=Word.ROLLED_BACK, why="the newest map of heads does not have it")
        return newest_s
    entry = mapped.record.encode()
    path = _path(mapped.record_path)
    if not is_included(
        mapped.record_index, record.count, leaf_hash(entry), path, record.root
    ) or not _is_of(read_record(entry), dataset, shown):
        return Verdict(word=Word.UNLOGGED, why="the record shown is not in the map of heads")
    if index < mapped.index and mapped.record != shown.leaf:
        return Verdict(
            word=Word.ROLLED_BACK,
            why="the newest map of heads, signed by the node, has a newer head",
        )
    return newest_s


def _aged(
    cosigned: dict[NoteKey, SignatureLine],
    note: Note,
    wanted: Wanted,
    newest_s: float,
    now_s: float,
) -> Verdict:
    """Return the word for a head that nothing speaks against."""
    policy, stamps = wanted.policy, [line.stamp for line in cosigned.values()]
    signed_s = float(max([newest_s, *stamps]))
    verdict = Verdict(word=Word.UNWITNESSED, why="", note=note, signed_s=signed_s)
    witnessed = policy.quorum != NOBODY and policy.is_met(list(cosigned))
    if wanted.fresh_s is not None:
        oldest_s = now_s - wanted.fresh_s
        recent = [key for key, line in cosigned.items() if line.stamp >= oldest_s]
        if (witnessed and not policy.is_met(recent)) or signed_s < oldest_s:
            why = f"nothing newer than {wanted.fresh_s:.0f} s was signed"
            return _as(verdict, Word.STALE, why)
    if witnessed:
        return _as(verdict, Word.CONFIRMED, f"{len(cosigned)} witness(es) of the policy signed")
    if policy.quorum == NOBODY:
        return _as(verdict, Word.UNWITNESSED, "the node's log has it; no witnesses were asked for")
    why = f"{len(cosigned)} witness(es) signed, which is too few for the policy"
    return _as(verdict, Word.UNWITNESSED, why)


def _as(verdict: Verdict, word: Word, why: str) -> Verdict:
    return replace(verdict, word=word, why=why)


def _within(one: Leaf, checkpoint: LogCheckpoint) -> Record | None:
    """Return the record of a leaf, or None if it is not in the log."""
    entry = one.leaf.encode()
    record = read_record(entry)
    path = _path(one.path)
    is_in = is_included(one.index, checkpoint.size, leaf_hash(entry), path, checkpoint.root)
    return record if is_in else None


def _is_of(record: Record, dataset: DatasetId, shown: HeadProof) -> TypeGuard[HeadRecord]:
    """Return whether a record is of the dataset, under its name or its salted one."""
    salt = decoded(shown.salt, "the salt")
    names = (logged_name(dataset, None), logged_name(dataset, salt))
    return isinstance(record, HeadRecord) and record.name in names


def _path(texts: tuple[str, ...]) -> list[bytes]:
    path = [decoded(text, "a hash") for text in texts[: MAX_PATH + 1]]
    if any(len(each) != HASH_BYTES for each in path):
        raise BadInput("MalformedNote", f"a hash of a path has {HASH_BYTES} bytes")
    return path


def is_contradicted(one: Note, other: Note, key: NoteKey) -> bool:
    """Return whether one key signed two logs of one size with different roots: anybody who has
    both notes can check that, and no honest log signs such.

    Raises:
        SignatureWrong: one of them is not signed by that key.
    """
    for note in (one, other):
        if key not in signers(note, [key]):
            raise BadInput("SignatureWrong", f"{key.name} signed one of the two notes at most")
    first, second = LogCheckpoint.parse(one.text), LogCheckpoint.parse(other.text)
    same = (first.origin, first.size) == (second.origin, second.size)
    return same and first.root != second.root
