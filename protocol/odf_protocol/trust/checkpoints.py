"""Checkpoints of logs, and the files around them: proofs, requests to witnesses, policies (C2SP).

checkpoint       origin, size, base64 of the root, extensions; a line each, as a signed note
tlog-proof       the path from one leaf to the root of a checkpoint
add-checkpoint   the path from the checkpoint that a witness knows to a newer one
tlog-policy      which logs and witnesses a client trusts, and how many of them it needs
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..errors import BadInput
from .merkle import HASH_BYTES, MAX_PATH
from .notes import MAX_NOTE_BYTES, Note, NoteKey, decimal, decoded, encoded, malformed_note

PROOF_HEADER = "c2sp.org/tlog-proof@v1"
PROOF_SUFFIX = ".tlog-proof"
MAX_ORIGIN_CHARS = 1000
MAX_EXTENSIONS = 100
MAX_POLICY_BYTES = 64 * 1024
NOBODY = "none"
"""The quorum that needs no witness, and no name of one."""


@dataclass(frozen=True, slots=True)
class LogCheckpoint:
    """What a log says of itself: so many leaves, below this root."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> LogCheckpoint:
        """Read the text of a note. Raises `MalformedNote`."""
        lines = text.split("\n")
        if lines.pop() != "" or not 3 <= len(lines) <= 3 + MAX_EXTENSIONS or "" in lines:
            raise malformed_note("a checkpoint is origin, size and root, a line each")
        origin, size, root, *extensions = lines
        raw = decoded(root, "the root")
        if len(raw) != HASH_BYTES or len(origin) > MAX_ORIGIN_CHARS:
            raise malformed_note("a checkpoint is origin, size and root, a line each")
        return cls(origin, decimal(size, "the size"), raw, tuple(extensions))

    @property
    def text(self) -> str:
        lines = (self.origin, str(self.size), encoded(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class LogProof:
    """The path from a leaf to the root of a checkpoint. Nobody vouches for `extra`."""

    index: int
    path: tuple[bytes, ...]
    checkpoint: Note
    extra: bytes = b""

    @classmethod
    def parse(cls, raw: bytes) -> LogProof:
        """Read a file `.tlog-proof`. Raises `MalformedNote`."""
        head, note = _before_note(raw, "proof")
        lines = head.split("\n")
        if lines.pop(0) != PROOF_HEADER:
            raise malformed_note(f"a proof begins with {PROOF_HEADER}")
        extra = b""
        if lines and lines[0].startswith("extra "):
            extra = decoded(lines.pop(0).removeprefix("extra "), "what is extra")
            if not extra:
                raise malformed_note("what is extra is empty")
        word, _, index = (lines.pop(0) if lines else "").partition(" ")
        if word != "index":
            raise malformed_note("a proof has no index")
        return cls(decimal(index, "the index"), _path(lines), note, extra)

    def __str__(self) -> str:
        extra = f"extra {encoded(self.extra)}\n" if self.extra else ""
        path = "".join(f"{encoded(each)}\n" for each in self.path)
        return f"{PROOF_HEADER}\n{extra}index {self.index}\n{path}\n{self.checkpoint}"


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """A request to a witness that knows the log up to `old`."""

    old: int
    path: tuple[bytes, ...]
    checkpoint: Note

    @classmethod
    def parse(cls, raw: bytes) -> AddCheckpoint:
        """Read the body of a request. Raises `MalformedNote`."""
        head, note = _before_note(raw, "request")
        first, *lines = head.split("\n")
        word, _, old = first.partition(" ")
        if word != "old":
            raise malformed_note("the request does not begin with the old size")
        return cls(decimal(old, "the old size"), _path(lines), note)

    def __bytes__(self) -> bytes:
        path = "".join(f"{encoded(each)}\n" for each in self.path)
        return f"old {self.old}\n{path}\n{self.checkpoint}".encode()


def _before_note(raw: bytes, what: str) -> tuple[str, Note]:
    """Split what stands before the first empty line from the note behind it."""
    head, empty, note = raw[: 2 * MAX_NOTE_BYTES].partition(b"\n\n")
    try:
        text = head.decode("ascii")
    except UnicodeDecodeError:
        raise malformed_note(f"the {what} is not ASCII before its note") from None
    if not empty:
        raise malformed_note(f"the {what} has no note")
    return text, Note.parse(note)


def _path(lines: list[str]) -> tuple[bytes, ...]:
    if len(lines) > MAX_PATH:
        raise malformed_note(f"a path has at most {MAX_PATH} hashes")
    path = tuple(decoded(line, "a hash") for line in lines)
    if any(len(each) != HASH_BYTES for each in path):
        raise malformed_note(f"a hash has {HASH_BYTES} bytes")
    return path


@dataclass(frozen=True, slots=True)
class WitnessGroup:
    """Some witnesses or groups, of which so many are needed."""

    needed: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Peer:
    """A log or witness of a policy, and where it is asked."""

    key: NoteKey
    url: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """Whom a client trusts. Of `quorum` it needs enough cosignatures; none if it is `none`."""

    logs: tuple[Peer, ...] = ()
    witnesses: tuple[tuple[str, Peer], ...] = ()
    groups: tuple[tuple[str, WitnessGroup], ...] = ()
    quorum: str = NOBODY

    @classmethod
    def parse(cls, raw: bytes) -> Policy:
        """Read a file of the form tlog-policy. Raises `MalformedPolicy`, which names the line."""
        if len(raw) > MAX_POLICY_BYTES:
            raise _malformed_policy(0, f"it has more than {MAX_POLICY_BYTES} bytes")
        reading = _PolicyReading()
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise _malformed_policy(0, "it is not UTF-8") from None
        for number, line in enumerate(text.split("\n"), 1):
            words = line.partition("#")[0].replace("\t", " ").split(" ")
            if words := [word for word in words if word]:
                try:
                    reading.take(*words)
                except (BadInput, TypeError, ValueError) as wrong:
                    why = wrong.message if isinstance(wrong, BadInput) else "it lacks a word"
                    raise _malformed_policy(number, why) from None
        if reading.quorum is None:
            raise _malformed_policy(0, "it has no line `quorum NAME` or `quorum none`")
        return cls(
            tuple(reading.logs),
            tuple(reading.witnesses.items()),
            tuple(reading.groups.items()),
            reading.quorum,
        )

    def is_met(self, cosigned: Collection[NoteKey]) -> bool:
        """Return whether the keys of enough witnesses are among those that signed."""
        met = {NOBODY} | {name for name, peer in self.witnesses if peer.key in cosigned}
        for name, group in self.groups:  # each names only those above it
            if sum(member in met for member in group.members) >= group.needed:
                met.add(name)
        return self.quorum in met


class _PolicyReading:
    """What the lines of a policy up to now say."""

    def __init__(self) -> None:
        self.logs: list[Peer] = []
        self.witnesses: dict[str, Peer] = {}
        self.groups: dict[str, WitnessGroup] = {}
        self.quorum: str | None = None

    def take(self, word: str, *words: str) -> None:
        readers: dict[str, Callable[..., None]] = {
            "log": self._log,
            "witness": self._witness,
            "group": self._group,
            "quorum": self._quorum,
        }
        if word not in readers:
            raise malformed_note(f"lines begin with {', '.join(readers)}; not {word[:50]!r}")
        readers[word](*words)

    def _log(self, key: str, url: str = "") -> None:
        self.logs.append(Peer(NoteKey.parse(key), url))

    def _witness(self, name: str, key: str, url: str = "") -> None:
        self._new(name)
        self.witnesses[name] = Peer(NoteKey.parse(key).cosigner, url)

    def _group(self, name: str, needed: str, *members: str) -> None:
        self._new(name)
        if not members or not set(members) <= {*self.witnesses, *self.groups}:
            raise malformed_note(f"members of group {name[:50]!r} are not named above it")
        words = {"any": 1, "all": len(members)}
        count = words[needed] if needed in words else decimal(needed, "the count of a group")
        if not 1 <= count <= len(members) or len(set(members)) != len(members):
            raise malformed_note(f"group {name[:50]!r} has no {count} different members")
        self.groups[name] = WitnessGroup(count, members)

    def _quorum(self, name: str) -> None:
        if self.quorum is not None:
            raise malformed_note("there is a quorum already")
        if name not in {NOBODY, *self.witnesses, *self.groups}:
            raise malformed_note(f"quorum {name[:50]!r} is not named above it")
        self.quorum = name

    def _new(self, name: str) -> None:
        if name in {NOBODY, *self.witnesses, *self.groups}:
            raise malformed_note(f"the name {name[:50]!r} is taken")


def _malformed_policy(line: int, why: str) -> BadInput:
    where = f"line {line} of the policy" if line else "the policy"
    return BadInput("MalformedPolicy", f"{where} cannot be read: {why}")
