"""Manifests: YAML or JSON documents that people write and read, in the structure of the model.

Reading accepts several spellings and is strict in everything else; writing has one form. The
error for an invalid document contains the path of the offending value.
Source: ODF "Manifest", "MetadataBlock", "MetadataEvent", "DatasetSnapshot".
"""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import msgspec

from ..metadata.attributes import Attributes, is_deeper
from ..metadata.events import (
    BlockVersion,
    DatasetSnapshot,
    HashedBlock,
    MetadataBlock,
    MetadataEvent,
)
from ..metadata.schema import Table
from ..typed import convert
from .normalize import TEXT_TYPES, walk_of
from .yaml_text import MAX_DEPTH, MAX_TEXT_BYTES, MalformedManifest, load_yaml, to_yaml

__all__ = [
    "MAX_TEXT_BYTES",
    "MalformedManifest",
    "block_manifest",
    "from_data",
    "load_block",
    "load_documents",
    "load_event",
    "load_snapshots",
    "manifest",
    "to_data",
    "to_yaml",
]

DOCUMENT_VERSION = 1
"""Version of every manifest except that of a block."""
_KEYS = ("kind", "version", "content")
_EVENTS = frozenset(kind.__name__ for kind in get_args(MetadataEvent))
_PATH = re.compile(r"(.*?)(?: - at `(\$.*)`)?", re.DOTALL)


def load_documents(text: str | bytes, *, max_bytes: int = MAX_TEXT_BYTES) -> list[Any]:
    """Return the documents of a YAML or JSON text as plain values. Raises `MalformedManifest`."""
    try:
        raw = text if isinstance(text, bytes) else text[: max_bytes + 1].encode()
        if len(raw) > max_bytes:
            raise MalformedManifest(f"document is larger than {max_bytes} bytes")
        text = raw.decode("utf-8-sig")
    except UnicodeError:
        raise MalformedManifest("document is not UTF-8") from None
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [_load_json(text)]
        except json.JSONDecodeError:
            pass  # the text may still be YAML in flow style
    return load_yaml(text)


def load_snapshots(text: str | bytes) -> list[DatasetSnapshot]:
    """Return all `DatasetSnapshot` manifests of a text, at least one. `MalformedManifest`."""
    documents = load_documents(text)
    if not documents:
        raise MalformedManifest("there is no document in the text")
    return [
        from_data(_content(document, "DatasetSnapshot")[0], DatasetSnapshot, path="$.content")
        for document in documents
    ]


def load_event(text: str | bytes) -> MetadataEvent:
    """Return the only event of a text, a `MetadataEvent` manifest or the event without the
    envelope, as it stands in datasets and blocks. Raises `MalformedManifest`."""
    document = _only(load_documents(text))
    is_bare = isinstance(document, dict) and document.get("kind") in _EVENTS
    content = document if is_bare else _content(document, "MetadataEvent")[0]
    path = "$" if is_bare else "$.content"
    event: MetadataEvent = from_data(content, MetadataEvent, path=path)
    return event


def load_block(text: str | bytes) -> tuple[MetadataBlock, BlockVersion]:
    """Return the only `MetadataBlock` manifest of a text. Raises `MalformedManifest`."""
    return block_from_manifest(_only(load_documents(text)))


def block_from_manifest(document: Any) -> tuple[MetadataBlock, BlockVersion]:
    """Return a block and its version from a manifest in plain values."""
    content, version = _content(document, "MetadataBlock", versions=(2, 3))
    block: MetadataBlock = from_data(content, MetadataBlock, path="$.content")
    return block, 2 if version == 2 else 3


def from_data(data: Any, type_: Any, *, path: str = "$") -> Any:
    """Convert plain values to a type of the model. Raises `MalformedManifest` with the path."""
    normal = walk_of(type_)(data, path)
    try:
        return convert(normal, type_, dec_hook=_as_is)
    except msgspec.ValidationError as problem:
        message, where = _PATH.fullmatch(str(problem)).groups()  # type: ignore[union-attr]
        raise MalformedManifest(message, path + (where or "$")[1:]) from None


def to_data(value: Any) -> Any:
    """Convert a value of the model to plain JSON-compatible values, in canonical text."""
    return _lists(msgspec.to_builtins(value, enc_hook=_plain))


def manifest(kind: str, value: Table, version: int = DOCUMENT_VERSION) -> dict[str, Any]:
    """Wrap a value in the manifest envelope."""
    return {"kind": kind, "version": version, "content": to_data(value)}


def block_manifest(block: HashedBlock) -> dict[str, Any]:
    """Return a block as a manifest in plain values."""
    return manifest("MetadataBlock", block.block, block.version)


def _load_json(text: str) -> Any:
    try:
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError):
        raise MalformedManifest("JSON with numbers too long or values too deep") from None
    if text.count("{") + text.count("[") > MAX_DEPTH and is_deeper(data, MAX_DEPTH):
        raise MalformedManifest(f"values are nested deeper than {MAX_DEPTH}")
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise MalformedManifest(f"key {twice!r} appears twice in one map")
    return out


def _no_constant(name: str) -> Any:
    raise MalformedManifest(f"{name} is not JSON")


def _only(documents: list[Any]) -> Any:
    if len(documents) != 1:
        raise MalformedManifest(f"one document is expected, there are {len(documents)}")
    return documents[0]


def _content(
    document: Any, kind: str, *, versions: tuple[int, ...] = (DOCUMENT_VERSION,)
) -> tuple[Any, int]:
    """Return the content of the envelope, and its version."""
    if not isinstance(document, dict):
        raise MalformedManifest("a manifest with kind, version and content is expected")
    for key in document:
        if key not in _KEYS:
            raise MalformedManifest(f"unknown field {str(key)[:100]!r}")
    if document.get("kind") != kind:
        raise MalformedManifest(
            f"a manifest of kind {kind} is expected, not {document.get('kind')!r:.100}", "$.kind"
        )
    version = document.get("version")
    if type(version) is not int or version not in versions:
        known = " or ".join(map(str, versions))
        raise MalformedManifest(f"{kind} has version {known}, not {version!r:.100}", "$.version")
    if "content" not in document:
        raise MalformedManifest("a manifest without content")
    return document["content"], version


def _as_is(kind: type, value: Any) -> Any:
    """Accept a value that `walk_of` has parsed already; refuse anything else."""
    if isinstance(value, kind):
        return value
    raise TypeError(f"Expected {kind.__name__}")


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_lists(part) for part in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Attributes):
        return value.value
    if type(value) in TEXT_TYPES:
        return str(value)
    raise TypeError(f"no text form for {type(value).__name__}")
