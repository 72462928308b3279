"""Identity and names of datasets: DIDs, names, aliases, local references.

Names are ASCII alphanumerics joined by single `-` inside a label and single `.` between
labels. Names keep the case in which they were written, but are compared without case.
`references.py` has references to other repositories, URLs and patterns.
Source: ODF "Dataset Identity" and its reference grammar.
"""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Any

from .errors import BadInput
from .multihash import decode_multibase

ED25519_PREFIX = b"\xed\x01"
KEY_BYTES = 32
DID_ODF = "did:odf:"
DID_KEY = "did:key:"
BASE58_BTC = "z"
MAX_NAME_CHARS = 100
"""Limit in characters of a dataset or account name (the reference's database column)."""

LABEL = r"[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*"
_NAME = re.compile(rf"{LABEL}(?:\.{LABEL})*")


class MalformedDid(BadInput):
    """The text or bytes are not a `did:odf` (or `did:key`) of an ed25519 key."""


class MalformedName(BadInput):
    """The text is not a name, alias or reference according to the grammar."""


class _Value:
    """Immutable value; equal if its parts are. (Dataclasses would define their own text form.)"""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def _parts(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} does not change")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __reduce__(self) -> tuple[type[_Value], tuple[Any, ...]]:
        return type(self), self._parts()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


@total_ordering
class DatasetId(_Value):
    """Permanent identity of a dataset: an ed25519 public key (32 bytes)."""

    __slots__ = ("key",)
    __match_args__ = ("key",)
    key: bytes

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise MalformedDid(f"an ed25519 key has {KEY_BYTES} bytes, not {len(key)}")
        object.__setattr__(self, "key", key)

    def __eq__(self, other: object) -> bool:  # called very often, so without `_parts`
        return self.key == other.key if type(other) is DatasetId else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    @classmethod
    def parse(cls, text: str) -> DatasetId:
        """Parse `did:odf:<multibase>`. Raises `MalformedDid` or `MalformedMultibase`."""
        if not text.startswith(DID_ODF):
            raise MalformedDid(f"not a did:odf identifier: {text[:100]!r}")
        return cls.decode(decode_multibase(text[len(DID_ODF) :]))

    @classmethod
    def parse_did_key(cls, text: str) -> DatasetId:
        """Parse `did:key:z…`, the same key in base58btc. Raises the same errors as `parse`."""
        if not text.startswith(DID_KEY + BASE58_BTC):
            raise MalformedDid(f"not a did:key in base58btc: {text[:100]!r}")
        return cls.decode(decode_multibase(text[len(DID_KEY) :]))

    @classmethod
    def decode(cls, raw: bytes) -> DatasetId:
        """Decode `ed 01 ‖ key`, the form in FlatBuffers."""
        if raw[:2] != ED25519_PREFIX:
            raise MalformedDid("only ed25519 identities (ed01…) are known")
        return cls(bytes(raw[2:]))

    @property
    def raw(self) -> bytes:
        return ED25519_PREFIX + self.key

    @property
    def multibase(self) -> str:
        """Base16 text without `did:odf:`, which is the folder name of a stored dataset."""
        return "f" + self.raw.hex()

    @property
    def did_key(self) -> str:
        """The same key as `did:key`, base58btc."""
        from multiformats import multibase  # its tables take long to load

        return DID_KEY + str(multibase.encode(self.raw, "base58btc"))

    def __str__(self) -> str:
        return DID_ODF + self.multibase

    def __lt__(self, other: DatasetId) -> bool:
        return self.key < other.key


@total_ordering
class Name:
    """A name of an account, dataset or repository. Keeps its case, but compares without case."""

    __slots__ = ("text",)
    text: str

    def __init__(self, text: str) -> None:
        if _NAME.fullmatch(text) is None:
            raise MalformedName(
                f"not a valid name: {text[:100]!r}; "
                "letters a-z and digits, joined by single '-' or '.'"
            )
        object.__setattr__(self, "text", text)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Name does not change")

    def __reduce__(self) -> tuple[type[Name], tuple[str]]:
        return Name, (self.text,)

    @property
    def folded(self) -> str:
        """The form in which names are compared."""
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


class DatasetAlias(_Value):
    """A dataset's alias: `name` or `account/name`."""

    __slots__ = ("account", "name")
    __match_args__ = ("name", "account")
    name: Name
    account: Name | None

    def __init__(self, name: Name, account: Name | None = None) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "account", account)

    @classmethod
    def parse(cls, text: str) -> DatasetAlias:
        account, slash, name = text.rpartition("/")
        return cls(Name(name), Name(account) if slash else None)

    @property
    def folded(self) -> str:
        return str(self).lower()

    def __str__(self) -> str:
        return f"{self.account}/{self.name}" if self.account else str(self.name)


class RemoteAlias(_Value):
    """An alias in another repository: `repo/name` or `repo/account/name`."""

    __slots__ = ("account", "name", "repo")
    __match_args__ = ("repo", "name", "account")
    repo: Name
    name: Name
    account: Name | None

    def __init__(self, repo: Name, name: Name, account: Name | None = None) -> None:
        object.__setattr__(self, "repo", repo)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "account", account)

    @classmethod
    def parse(cls, text: str) -> RemoteAlias:
        parts = text.split("/", 3)
        if len(parts) not in (2, 3):
            raise MalformedName(f"not repo/name or repo/account/name: {text[:200]!r}")
        names = [Name(part) for part in parts]
        return cls(names[0], names[-1], names[1] if len(names) == 3 else None)

    def __str__(self) -> str:
        return "/".join(str(part) for part in (self.repo, self.account, self.name) if part)


class DatasetRef(_Value):
    """A user's reference to a dataset of this node: either an id or an alias."""

    __slots__ = ("alias", "id")
    __match_args__ = ("id", "alias")
    id: DatasetId | None
    alias: DatasetAlias | None

    def __init__(
        self,
        id: DatasetId | None = None,  # noqa: A002  (the name of the part)
        alias: DatasetAlias | None = None,
    ) -> None:
        if (id is None) == (alias is None):
            raise MalformedName("a dataset reference is either an id or an alias")
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "alias", alias)

    @classmethod
    def parse(cls, text: str) -> DatasetRef:
        """Parse an id if the text begins like one, else an alias. Raises `MalformedDid` or
        `MalformedName`."""
        if text.startswith(DID_ODF):
            return cls(id=DatasetId.parse(text))
        return cls(alias=DatasetAlias.parse(text))

    def __str__(self) -> str:
        return str(self.id if self.id is not None else self.alias)
