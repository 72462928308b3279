"""References beyond this node: other repositories, URLs, and name patterns.

A remote reference is a dataset in a repository or a URL. The "any" form also accepts local
references, and leaves open whether `a` of `a/b` is a repository. Text with `did:odf:`, alone or
after one repository name, is either a valid id or refused.
Source: ODF reference grammar; patterns are those of the reference peer's command line.

Linked objects: files that rows refer to by hash (RFC-017).

A text column declared as a link contains multihashes of objects under `data/` of the same
dataset. The chain contains only their number and total size: `AddData` has a summary, in which
repeated links are counted repeatedly.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from .identity import DID_ODF, DatasetAlias, DatasetId, DatasetRef, MalformedName, Name, RemoteAlias
from .metadata.attributes import Attributes, MalformedAttributes
from .metadata.schema import DataSchema, DataTypeString, bare_type

MAX_URL_CHARS = 2048
WILDCARD = "%"

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9]*(?:\+[a-zA-Z0-9]+)*)://(.*)", re.ASCII | re.DOTALL)
_WITH_ID = re.compile(rf"(?:([^/:]+)/)?({DID_ODF}.*)", re.DOTALL)
_PATTERN_LABEL = r"[a-zA-Z0-9%]+(?:-[a-zA-Z0-9%]+)*"
_PATTERN = re.compile(rf"{_PATTERN_LABEL}(?:\.{_PATTERN_LABEL})*")
_NEED_HOST = frozenset(("http", "https", "ws", "wss", "ftp"))
_FORBIDDEN_IN_HOST = frozenset("\0\t\n\r #/:<>?@[\\]^|%")


@dataclass(frozen=True, slots=True)
class DatasetRefRemote:
    """A dataset elsewhere: an id (perhaps in a known repository), an alias, or a URL."""

    id: DatasetId | None = None
    repo: Name | None = None
    alias: RemoteAlias | None = None
    url: str | None = None

    @classmethod
    def parse(cls, text: str) -> DatasetRefRemote:
        """Parse a reference. Raises `MalformedDid`, `MalformedMultibase` or `MalformedName`."""
        if match := _WITH_ID.fullmatch(text):
            repo, did = match.groups()
            return cls(id=DatasetId.parse(did), repo=Name(repo) if repo else None)
        if "://" in text:
            return cls(url=check_url(text))
        return cls(alias=RemoteAlias.parse(text))

    def __str__(self) -> str:
        if self.id is not None:
            return f"{self.repo}/{self.id}" if self.repo else str(self.id)
        return self.url if self.url is not None else str(self.alias)


@dataclass(frozen=True, slots=True)
class AmbiguousAlias:
    """`a/b`, which is either account and name or repository and name."""

    first: Name
    name: Name

    def __str__(self) -> str:
        return f"{self.first}/{self.name}"


@dataclass(frozen=True, slots=True)
class DatasetRefAny:
    """A reference to any dataset, local or remote."""

    value: DatasetRef | DatasetRefRemote | AmbiguousAlias

    @classmethod
    def parse(cls, text: str) -> DatasetRefAny:
        """Parse a reference. Raises `MalformedDid`, `MalformedMultibase` or `MalformedName`."""
        if _WITH_ID.fullmatch(text) or "://" in text:
            remote = DatasetRefRemote.parse(text)
            if remote.id is not None and remote.repo is None:
                return cls(DatasetRef(id=remote.id))
            return cls(remote)
        match text.count("/"):
            case 0:
                return cls(DatasetRef(alias=DatasetAlias(Name(text))))
            case 1:
                first, name = text.split("/")
                return cls(AmbiguousAlias(Name(first), Name(name)))
            case _:
                return cls(DatasetRefRemote(alias=RemoteAlias.parse(text)))

    def settled(self, is_repository: Callable[[Name], bool]) -> DatasetRef | DatasetRefRemote:
        """Return a local or remote reference; `is_repository` decides about ambiguous ones."""
        if not isinstance(self.value, AmbiguousAlias):
            return self.value
        first, name = self.value.first, self.value.name
        if is_repository(first):
            return DatasetRefRemote(alias=RemoteAlias(first, name))
        return DatasetRef(alias=DatasetAlias(name, first))

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class DatasetNamePattern:
    """A dataset name with `%` for any run of characters; compared without case."""

    text: str

    @classmethod
    def parse(cls, text: str) -> DatasetNamePattern:
        if _PATTERN.fullmatch(text) is None:
            raise MalformedName(f"not a valid name pattern: {text[:100]!r}")
        return cls(text)

    def matches(self, name: Name) -> bool:
        """Return whether the name matches the pattern, in linear time."""
        first, *rest = self.text.lower().split(WILDCARD)
        text = name.folded
        if not rest:
            return text == first
        last = rest.pop()
        if not (len(text) >= len(first) + len(last) and text.startswith(first)):
            return False
        at, end = len(first), len(text) - len(last)
        for part in rest:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return text.endswith(last)

    def __str__(self) -> str:
        return self.text


def check_url(text: str) -> str:
    """Return the text if it is a valid URL by the grammar. Raises `MalformedName`."""
    match = _SCHEME.fullmatch(text)
    if match is None or len(text) > MAX_URL_CHARS:
        raise MalformedName(f"not a URL: {text[:200]!r}")
    scheme, rest = match[1].lower(), match[2]
    if scheme in _NEED_HOST:
        rest = rest.replace("\\", "/").lstrip("/")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    try:
        _check_host(scheme, authority.rpartition("@")[2])
    except ValueError:
        raise MalformedName(f"not a URL with a proper host: {text[:200]!r}") from None
    return text


def _check_host(scheme: str, host_and_port: str) -> None:
    """Check host and port of a URL. Raises `ValueError`."""
    bracketed = re.fullmatch(r"\[([^\]%]*)\](?::([0-9]*))?", host_and_port, re.ASCII)
    if bracketed is not None:
        ipaddress.IPv6Address(bracketed[1])
        host, port = "ipv6", bracketed[2] or ""
    else:
        host, _, port = host_and_port.partition(":")
    if port and (not port.isdecimal() or not port.isascii() or int(port[:6]) > 65535):
        raise ValueError(port)
    if scheme in _NEED_HOST:
        _check_domain(unquote(host, errors="strict"))
    elif _FORBIDDEN_IN_HOST.intersection(host.replace("%", "")) or (port and not host):
        raise ValueError(host)


def _check_domain(host: str) -> None:
    """Check a domain name or an IPv4 address. Raises `ValueError`."""
    if not host or _FORBIDDEN_IN_HOST.intersection(host) or not host.isprintable():
        raise ValueError(host)
    labels = host.removesuffix(".").split(".")
    if re.fullmatch(r"[0-9]+|0[xX][0-9a-fA-F]*", labels[-1], re.ASCII):
        if len(labels) > 4 or any(int(label, 10) > 255 for label in labels[:-1]):
            raise ValueError(host)
        if int(labels[-1], 16 if labels[-1][:2] in ("0x", "0X") else 10) >= 256 ** (
            5 - len(labels)
        ):
            raise ValueError(host)


TYPE_KEY = "opendatafabric.org/type"
SUMMARY_KEY = "opendatafabric.org/linkedObjects"
LINK, MULTIHASH = "ObjectLink", "Multihash"
MAX_COUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LinkedObjects:
    """The number of links, and the bytes of the objects they refer to; an object linked twice
    counts twice."""

    count: int = 0
    size: int = 0

    def __add__(self, other: LinkedObjects) -> LinkedObjects:
        return LinkedObjects(
            min(self.count + other.count, MAX_COUNT), min(self.size + other.size, MAX_COUNT)
        )


NOTHING_LINKED = LinkedObjects()


def link_columns(schema: DataSchema | None) -> tuple[str, ...]:
    """Return the names of the top-level text columns that are links by multihash."""
    if schema is None:
        return ()
    return tuple(
        field.name
        for field in schema.fields
        if isinstance(bare_type(field.type), DataTypeString)
        and field.extra is not None
        and _is_link(field.extra)
    )


def linked_objects(extra: Attributes | None) -> LinkedObjects:
    """Return the summary in an event; an invalid one counts as none: anybody may write it."""
    if extra is None or SUMMARY_KEY not in extra.text:
        return NOTHING_LINKED
    try:
        summary = extra.value.get(SUMMARY_KEY)
    except MalformedAttributes:
        return NOTHING_LINKED
    if not isinstance(summary, dict):
        return NOTHING_LINKED
    return LinkedObjects(_count(summary, "numObjectsNaive"), _count(summary, "sizeNaive"))


def summary_of(linked: LinkedObjects) -> Attributes:
    """Return the summary as attributes of `AddData`."""
    summary = {"numObjectsNaive": linked.count, "sizeNaive": linked.size}
    return Attributes.of({SUMMARY_KEY: summary})


def _is_link(extra: Attributes) -> bool:
    try:
        kind = extra.value.get(TYPE_KEY)
    except MalformedAttributes:
        return False
    if not isinstance(kind, dict) or kind.get("kind") != LINK:
        return False
    link = kind.get("linkType")
    return isinstance(link, dict) and link.get("kind") == MULTIHASH


def _count(summary: Mapping[str, Any], name: str) -> int:
    value = summary.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return max(0, min(value, MAX_COUNT))
