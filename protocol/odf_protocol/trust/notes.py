"""Signed notes: a text, and lines below it with which keys signed it (C2SP signed-note).

    text        ends in LF; the last empty line of the note ends it
    line        `— name base64(key id || signature)`
    key         `name+hex(key id)+base64(type || public key)`
    key id      the first 4 bytes of SHA-256(name || LF || type || public key)

A witness signs with the time besides (C2SP tlog-cosignature, `cosignature/v1`). Lines of unknown
keys are ignored, so are those of ML-DSA-44, which no library that we use verifies.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..commitments import KeyPair, is_signed_by, signed_by
from ..errors import BadInput

ED25519, COSIGNATURE = 0x01, 0x04
PUBLIC_BYTES = 32
ID_BYTES = 4
STAMP_BYTES = 8
SIGNATURE_BYTES = 64
MAX_NOTE_BYTES = 1_000_000
MAX_LINES = 100
"""Signature lines of a note; other readers take as many."""
MOST = 2**63 - 1
_DASH = "\N{EM DASH} "
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f]")
_KEY_ID = re.compile("[0-9a-f]{8}")


def malformed_note(why: str) -> BadInput:
    """Make the error for bytes that are no signed note, or not of the kind that is needed."""
    return BadInput("MalformedNote", f"the signed note cannot be read: {why}")


def decoded(text: str, what: str) -> bytes:
    """Decode padded base64 that is the one text of its bytes. Raises `MalformedNote`."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        raise malformed_note(f"{what} is not base64") from None
    if base64.b64encode(raw).decode() != text:
        raise malformed_note(f"{what} is not base64 with padding")
    return raw


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def decimal(text: str, what: str) -> int:
    """Read a number without signs and leading zeros, below 2⁶³. Raises `MalformedNote`."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST))):
        raise malformed_note(f"{what} is no decimal number")
    number = int(text)
    if number > MOST or str(number) != text:
        raise malformed_note(f"{what} is no decimal number")
    return number


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A public key with the name under which it signs."""

    name: str
    public: bytes
    kind: int = ED25519

    @classmethod
    def parse(cls, text: str) -> NoteKey:
        """Read a key as verifiers of signed notes get it. Raises `MalformedNoteKey`."""
        name, _, rest = text.partition("+")
        key_id, _, key = rest.partition("+")
        try:
            raw = decoded(key, "the key")
        except BadInput:
            raw = b""
        if not _is_name(name) or not _KEY_ID.fullmatch(key_id) or not raw:
            raise BadInput(
                "MalformedNoteKey", f"a key is name+id+base64, as /system/keys shows: {text[:80]!r}"
            )
        if raw[0] not in (ED25519, COSIGNATURE) or len(raw) != 1 + PUBLIC_BYTES:
            raise BadInput(
                "MalformedNoteKey", f"{text[:80]!r} is no key of Ed25519, the only ones verified"
            )
        one = cls(name, raw[1:], raw[0])
        if one.id.hex() != key_id:
            raise BadInput("MalformedNoteKey", f"the id within {text[:80]!r} is of another key")
        return one

    @property
    def id(self) -> bytes:
        named = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(named).digest()[:ID_BYTES]

    @property
    def cosigner(self) -> NoteKey:
        """The same key as that of a witness."""
        return NoteKey(self.name, self.public, COSIGNATURE)

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{encoded(bytes([self.kind]) + self.public)}"


@dataclass(frozen=True, slots=True)
class SignatureLine:
    """A line below a note: who is said to have signed it, and the signature."""

    name: str
    key_id: bytes
    signature: bytes

    @classmethod
    def parse(cls, line: str) -> SignatureLine:
        name, _, text = line.removeprefix(_DASH).partition(" ")
        if not line.startswith(_DASH) or not _is_name(name):
            raise malformed_note("a line below the text is no signature")
        raw = decoded(text, "a signature")
        if len(raw) <= ID_BYTES:
            raise malformed_note("a signature is too short")
        return cls(name, raw[:ID_BYTES], raw[ID_BYTES:])

    @property
    def stamp(self) -> int:
        """The seconds since 1970 at which a witness signed. Only for cosignatures."""
        return int.from_bytes(self.signature[:STAMP_BYTES], "big")

    def __str__(self) -> str:
        return f"{_DASH}{self.name} {encoded(self.key_id + self.signature)}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A text and the lines below it."""

    text: str
    lines: tuple[SignatureLine, ...]

    @classmethod
    def parse(cls, raw: bytes) -> Note:
        """Read a note; which of its signatures are good, `signers` says. Raises `MalformedNote`."""
        if len(raw) > MAX_NOTE_BYTES:
            raise malformed_note(f"it has more than {MAX_NOTE_BYTES} bytes")
        try:
            whole = raw.decode()
        except UnicodeDecodeError:
            raise malformed_note("it is not UTF-8") from None
        if _CONTROL.search(whole):
            raise malformed_note("it has control characters")
        text, empty, below = whole.rpartition("\n\n")
        if not empty or not below.endswith("\n"):
            raise malformed_note("no lines with signatures end it")
        return cls(text + "\n", signature_lines(below))

    def __str__(self) -> str:
        return f"{self.text}\n{''.join(map(str, self.lines))}"

    def __bytes__(self) -> bytes:
        return str(self).encode()


def signature_lines(text: str) -> tuple[SignatureLine, ...]:
    """Read the lines below a note, or those with which a witness answers. `MalformedNote`."""
    lines = text.split("\n")
    if lines.pop() != "" or not 1 <= len(lines) <= MAX_LINES:
        raise malformed_note(f"1 to {MAX_LINES} lines with signatures end a note")
    return tuple(map(SignatureLine.parse, lines))


def note_line(text: str, name: str, key: KeyPair) -> SignatureLine:
    """Sign a text, which ends in LF."""
    if not text.endswith("\n"):
        raise malformed_note("its text does not end in a line end")
    return SignatureLine(name, NoteKey(name, key.public).id, signed_by(key, text.encode()))


def cosigned_line(text: str, name: str, key: KeyPair, now_s: int) -> SignatureLine:
    """Sign a text as a witness that saw it at that time."""
    stamp = now_s.to_bytes(STAMP_BYTES, "big")
    signature = signed_by(key, _cosigned(text, now_s))
    return SignatureLine(name, NoteKey(name, key.public, COSIGNATURE).id, stamp + signature)


def signers(note: Note, keys: Iterable[NoteKey]) -> dict[NoteKey, SignatureLine]:
    """Return which of the keys signed the note.

    Of several lines of one key the first counts, as for other readers.

    Raises:
        SignatureWrong: a line of one of them does not sign this text.
    """
    known = {(key.name, key.id): key for key in keys}
    found: dict[NoteKey, SignatureLine] = {}
    for line in note.lines:
        key = known.get((line.name, line.key_id))
        if key is None or key in found:
            continue
        if not _is_good(note.text, key, line.signature):
            raise BadInput(
                "SignatureWrong",
                f"the line of {key.name} does not sign this note; do not use it",
                key=str(key),
            )
        found[key] = line
    return found


def _is_good(text: str, key: NoteKey, signature: bytes) -> bool:
    if key.kind == ED25519:
        return is_signed_by(key.public, text.encode(), signature)
    stamp = int.from_bytes(signature[:STAMP_BYTES], "big")
    if len(signature) != STAMP_BYTES + SIGNATURE_BYTES or stamp > MOST:
        return False
    return is_signed_by(key.public, _cosigned(text, stamp), signature[STAMP_BYTES:])


def _cosigned(text: str, stamp: int) -> bytes:
    return f"cosignature/v1\ntime {stamp}\n{text}".encode()


def _is_name(name: str) -> bool:
    return name != "" and "+" not in name and not any(map(str.isspace, name))
