"""Who a dataset is and what it is called: DIDs, names, aliases, references and their grammar.

Names are ASCII alphanumerics joined by single `-` inside a label and single `.` between
labels. They keep the case they were written in and compare ignoring it.
Source: ODF "Dataset Identity" and its reference grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

from multiformats import multibase

from .errors import BadInput
from .multihash import decode_multibase

ED25519_PREFIX = b"\xed\x01"
KEY_BYTES = 32
DID_ODF = "did:odf:"
MAX_NAME_CHARS = 100
"""Longest dataset or account name a node takes (the reference's database column)."""

_LABEL = r"[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


class MalformedDid(BadInput):
    """Text or bytes that are no `did:odf` of an ed25519 key."""


class MalformedName(BadInput):
    """Text that is no name, alias or reference by the grammar."""


@dataclass(frozen=True, slots=True, order=True)
class DatasetId:
    """Permanent identity of a dataset: an ed25519 public key (32 bytes)."""

    key: bytes

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise MalformedDid(f"an ed25519 key has {KEY_BYTES} bytes, not {len(self.key)}")

    @classmethod
    def parse(cls, text: str) -> DatasetId:
        """From `did:odf:<multibase>`. Raises `MalformedDid` or `MalformedMultibase`."""
        if not text.startswith(DID_ODF):
            raise MalformedDid(f"not a did:odf identifier: {text[:100]!r}")
        return cls.decode(decode_multibase(text[len(DID_ODF) :]))

    @classmethod
    def decode(cls, raw: bytes) -> DatasetId:
        """From `ed 01 ‖ key`, as FlatBuffers carry it."""
        if raw[:2] != ED25519_PREFIX:
            raise MalformedDid("only ed25519 identities (ed01…) are known")
        return cls(bytes(raw[2:]))

    @property
    def raw(self) -> bytes:
        return ED25519_PREFIX + self.key

    @property
    def multibase(self) -> str:
        """Base16 text without `did:odf:`; the folder name of a stored dataset."""
        return "f" + self.raw.hex()

    @property
    def did_key(self) -> str:
        """The same key as `did:key`, base58btc."""
        return "did:key:" + str(multibase.encode(self.raw, "base58btc"))

    def __str__(self) -> str:
        return DID_ODF + self.multibase

    def __repr__(self) -> str:
        return f"DatasetId({self})"


@total_ordering
class Name:
    """One name of the grammar: account, dataset or repository. Case is kept, never compared."""

    __slots__ = ("text",)
    text: str

    def __init__(self, text: str) -> None:
        if _NAME.fullmatch(text) is None:
            raise MalformedName(
                f"not a valid name: {text[:100]!r}; letters and digits, joined by single '-' or '.'"
            )
        object.__setattr__(self, "text", text)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Name does not change")

    @property
    def folded(self) -> str:
        """What is compared."""
        return self.text.lower()

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Name({self.text!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Name):
            return NotImplemented
        return self.folded == other.folded

    def __lt__(self, other: Name) -> bool:
        return self.folded < other.folded

    def __hash__(self) -> int:
        return hash(self.folded)


@dataclass(frozen=True, slots=True)
class DatasetAlias:
    """`name` or `account/name`."""

    name: Name
    account: Name | None = None

    @classmethod
    def parse(cls, text: str) -> DatasetAlias:
        account, slash, name = text.rpartition("/")
        return cls(Name(name), Name(account) if slash else None)

    @property
    def folded(self) -> str:
        return str(self).lower()

    def __str__(self) -> str:
        return f"{self.account}/{self.name}" if self.account else str(self.name)


@dataclass(frozen=True, slots=True)
class RemoteAlias:
    """`repo/name` or `repo/account/name`."""

    repo: Name
    name: Name
    account: Name | None = None

    @classmethod
    def parse(cls, text: str) -> RemoteAlias:
        parts = text.split("/")
        if len(parts) not in (2, 3):
            raise MalformedName(f"not repo/name or repo/account/name: {text[:200]!r}")
        names = [Name(part) for part in parts]
        return cls(names[0], names[-1], names[1] if len(names) == 3 else None)

    def __str__(self) -> str:
        return "/".join(str(part) for part in (self.repo, self.account, self.name) if part)


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """What somebody typed for a dataset of this node: an id or an alias, exactly one."""

    id: DatasetId | None = None
    alias: DatasetAlias | None = None

    def __post_init__(self) -> None:
        if (self.id is None) == (self.alias is None):
            raise MalformedName("a dataset reference is either an id or an alias")

    @classmethod
    def parse(cls, text: str) -> DatasetRef:
        """An id is tried first. Raises `MalformedDid` or `MalformedName`."""
        if text.startswith(DID_ODF):
            return cls(id=DatasetId.parse(text))
        return cls(alias=DatasetAlias.parse(text))

    def __str__(self) -> str:
        return str(self.id if self.id is not None else self.alias)
