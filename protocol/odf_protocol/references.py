"""References beyond this node: other repositories, URLs, and name patterns.

A remote reference is a dataset in a repository or a URL. The "any" form also accepts local
references, and leaves open whether `a` of `a/b` is a repository. Text with `did:odf:`, alone or
after one repository name, is either a valid id or refused.
Source: ODF reference grammar; patterns are those of the reference peer's command line.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from .identity import DID_ODF, DatasetAlias, DatasetId, DatasetRef, MalformedName, Name, RemoteAlias

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
