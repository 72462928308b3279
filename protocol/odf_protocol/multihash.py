"""Self-describing hashes: one value type with one text form; the only module with their codes.

A multihash is `varint(code) ‖ varint(length) ‖ digest`. Text is multibase: it is always written
in base16 (`f1620…`), and read in every multibase that is final in its registry.
Source: ODF "Hashing Data and Metadata"; text forms as the reference peer has them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from .errors import BadInput

SHA3_256 = 0x16
ARROW0_SHA3_256 = 0x300016

CODE_NAMES: dict[int, str] = {
    0x01: "cidv1",
    0x12: "sha2-256",
    SHA3_256: "sha3-256",
    0xED: "ed25519-pub",
    ARROW0_SHA3_256: "arrow0-sha3-256",
    0x400000: "odf-metadata-block",
    0x400001: "odf-dataset-snapshot",
}
MAX_DIGEST_BYTES = 32
MAX_TEXT_CHARS = 512
"""Limit in characters of a text that is read: 38 bytes in base 2 need 305 characters."""

FINAL_BASES = frozenset("fFbBzmuU")
"""Prefixes of the encodings that are final in the multibase registry."""
PADDED_BASE = "U"
PAD, PADDED_TO = "=", 4
"""The only final base with padding, which fills the text to a multiple of four characters."""


class MalformedHash(BadInput):
    """The bytes or text are not a multihash with a known code."""


class MalformedMultibase(BadInput):
    """The text is not in a known multibase."""


class HashMismatch(BadInput):
    """The content does not have the announced hash."""

    def __init__(self, expected: Multihash, actual: Multihash, what: str = "content") -> None:
        super().__init__(
            f"{what} hashes to {actual}, but {expected} was announced",
            expected=str(expected),
            actual=str(actual),
        )
        self.expected, self.actual = expected, actual


def decode_multibase(text: str) -> bytes:
    """Decode a multibase text. Both prefixes of base16 allow digits of either case.

    Only one base has padding; the others do not allow it.

    Raises:
        MalformedMultibase: empty, too long, of an unknown base, or with invalid characters.
    """
    if not text:
        raise MalformedMultibase("empty multibase text")
    if len(text) > MAX_TEXT_CHARS:
        raise MalformedMultibase(f"multibase text is longer than {MAX_TEXT_CHARS} characters")
    if text[0] in "fF":
        try:
            if not text[1:].isalnum():
                raise ValueError("not hexadecimal")
            return bytes.fromhex(text[1:])
        except ValueError:
            raise MalformedMultibase(f"not base16: {text!r}") from None
    if text[0] not in FINAL_BASES:
        raise MalformedMultibase(f"unknown multibase prefix {text[0]!r}")
    if not _is_padded_as_due(text):
        raise MalformedMultibase(f"wrong padding for multibase {text[0]!r}: {text!r}")
    from multiformats import multibase  # its tables take long to load, and base16 needs none

    try:
        return bytes(multibase.decode(text))
    except Exception:  # the library raises many types of errors for invalid characters
        raise MalformedMultibase(f"not valid in multibase {text[0]!r}: {text!r}") from None


def _is_padded_as_due(text: str) -> bool:
    """Return whether a text has the right amount of padding at its end, none in most bases."""
    digits = text[1:].rstrip(PAD)
    due = -len(digits) % PADDED_TO if text[0] == PADDED_BASE else 0
    return len(text) - 1 - len(digits) == due and PAD not in digits


def encode_varint(value: int) -> bytes:
    """Encode an unsigned varint (multiformats): seven bits per byte, low bits first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_varint(raw: bytes, at: int = 0) -> tuple[int, int]:
    """Return value and end position. Over-long forms and more than nine bytes are refused."""
    value = shift = 0
    for position in range(at, min(len(raw), at + 9)):
        byte = raw[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                raise MalformedHash("over-long varint")
            return value, position + 1
        shift += 7
    raise MalformedHash("varint is cut short or too long")


class Multihash:
    """One hash: algorithm code and digest, which define equality and order."""

    __slots__ = ("code", "digest")
    code: int
    digest: bytes

    def __init__(self, code: int, digest: bytes) -> None:
        if code not in CODE_NAMES:
            raise MalformedHash(f"unknown multihash code {code:#x}", code=code)
        if len(digest) > MAX_DIGEST_BYTES:
            raise MalformedHash(f"digest of {len(digest)} bytes is longer than {MAX_DIGEST_BYTES}")
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "digest", bytes(digest))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Multihash does not change")

    def __reduce__(self) -> tuple[type[Multihash], tuple[int, bytes]]:
        return Multihash, (self.code, self.digest)

    @classmethod
    def parse(cls, text: str) -> Multihash:
        """Parse multibase text. Raises `MalformedHash` or `MalformedMultibase`."""
        return cls.decode(decode_multibase(text))

    @classmethod
    def decode(cls, raw: bytes) -> Multihash:
        """Decode `varint(code) ‖ varint(length) ‖ digest`. Raises `MalformedHash`."""
        usual = _USUAL.get(len(raw))
        if usual is not None and raw.startswith(usual[1]):
            return _trusted(usual[0], raw[-MAX_DIGEST_BYTES:])
        code, at = decode_varint(raw)
        length, at = decode_varint(raw, at)
        if len(raw) - at != length:
            raise MalformedHash(f"multihash announces {length} bytes, {len(raw) - at} follow")
        return cls(code, raw[at:])

    @classmethod
    def of(cls, content: bytes | bytearray | memoryview) -> Multihash:
        """Return the SHA3-256 of the content, which is used for block and physical hashes."""
        return _trusted(SHA3_256, hashlib.sha3_256(content).digest())

    @classmethod
    def of_chunks(cls, chunks: Iterable[bytes]) -> Multihash:
        """Return the SHA3-256 of the concatenated chunks."""
        state = hashlib.sha3_256()
        for chunk in chunks:
            state.update(chunk)
        return _trusted(SHA3_256, state.digest())

    @property
    def raw(self) -> bytes:
        """The binary form, as in FlatBuffers."""
        head = _HEADS.get(self.code) if len(self.digest) == MAX_DIGEST_BYTES else None
        if head is None:
            head = encode_varint(self.code) + encode_varint(len(self.digest))
        return head + self.digest

    def __str__(self) -> str:
        return "f" + self.raw.hex()

    def __repr__(self) -> str:
        return f"Multihash({self})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Multihash):
            return NotImplemented
        return self.code == other.code and self.digest == other.digest

    def __lt__(self, other: Multihash) -> bool:
        return (self.code, self.digest) < (other.code, other.digest)

    def __hash__(self) -> int:
        return hash((self.code, self.digest))


_new = object.__new__
_set_code = vars(Multihash)["code"].__set__
_set_digest = vars(Multihash)["digest"].__set__


def _trusted(code: int, digest: bytes) -> Multihash:
    """Build a hash from a valid code and digest without checks, because blocks contain many."""
    multihash = _new(Multihash)
    _set_code(multihash, code)
    _set_digest(multihash, digest)
    return multihash


def _head(code: int) -> bytes:
    return encode_varint(code) + encode_varint(MAX_DIGEST_BYTES)


_HEADS = {code: _head(code) for code in (SHA3_256, ARROW0_SHA3_256)}
_USUAL = {len(head) + MAX_DIGEST_BYTES: (code, head) for code, head in _HEADS.items()}
"""Code and first bytes of the usual hashes, by the length of their binary form."""
