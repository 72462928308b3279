"""Blocks as bytes: the outer manifest, the block inside of it, and the hash of the whole.

A stored block is two FlatBuffers: a `Manifest` whose content is a finished `MetadataBlock`.
The hash is SHA3-256 of the outer bytes, so they are kept and never encoded anew.
Source: ODF "Metadata serialization"; versions as reference peers write them.

Messages to and from engines as bytes: finished FlatBuffers without a manifest.

The root of a request is its table; a response is a union, wrapped in a `…Root` table. Newer peers
align timestamps and older ones do not. Both forms are read, and the newer one is written.
Source: ODF engine protocol.
"""

from __future__ import annotations

from typing import Any, Literal

from ..errors import BadInput
from ..metadata.events import (
    WRITTEN_VERSION,
    BlockVersion,
    HashedBlock,
    MetadataBlock,
    UnknownEvent,
)
from ..metadata.schema import Table
from ..multihash import HashMismatch, Multihash
from .decode import (
    PLANS,
    ByteSource,
    MalformedBuffer,
    NotKnown,
    RawQueryResponseRoot,
    TablePlan,
    TransformResponseRoot,
    decode_root,
    read_guarded,
)
from .encode import encode_root
from .tables import UNIONS, Field

MAX_BLOCK_BYTES = 16 << 20
"""Limit in bytes of a block that is written, received or read from any store."""
METADATA_BLOCK_CODE = 0x400000
"""Multicodec `odf-metadata-block`, which a manifest contains as a plain integer."""
OBSOLETE_VERSION = 1
TIMESTAMP_ALIGNMENT: dict[BlockVersion, int] = {2: 1, 3: 4}
"""The only difference between the versions, which matters only for writing."""


def block_too_large() -> BadInput:
    """The block has more than `MAX_BLOCK_BYTES`."""
    return BadInput(
        "BlockTooLarge",
        f"a metadata block has more than {MAX_BLOCK_BYTES} bytes",
        limit=MAX_BLOCK_BYTES,
    )


class Manifest(Table, frozen=True, kw_only=True):
    """The outer buffer of a block."""

    kind: int
    version: int
    content: bytes


MANIFEST_FIELDS = (
    Field("kind", "i64", required=True),
    Field("version", "i32", required=True),
    Field("content", "bytes", required=True),
)
_MANIFEST = TablePlan("Manifest", MANIFEST_FIELDS, Manifest)
_BLOCK = PLANS["MetadataBlock"]
_EVENTS = UNIONS["MetadataEvent"]
LENGTH_BYTES = 4
HEADS_KEPT = 16
"""Number of manifest heads that are cached; each writer has only one or two."""
MAX_HEAD_BYTES = 64
_FRAME = ("prev_block_hash", "sequence_number")


def encode_block(block: MetadataBlock, version: BlockVersion = WRITTEN_VERSION) -> HashedBlock:
    """Return bytes and hash of a new block. Raises `Unencodable`, `BlockTooLarge`."""
    content = encode_root("MetadataBlock", block, timestamp_alignment=TIMESTAMP_ALIGNMENT[version])
    manifest = Manifest(kind=METADATA_BLOCK_CODE, version=version, content=content)
    raw = encode_root("Manifest", manifest, fields=MANIFEST_FIELDS)
    _check_size(raw)
    return HashedBlock(Multihash.of(raw), raw, block, version)


def decode_block(raw: bytes, *, expected: Multihash | None = None) -> HashedBlock:
    """Decode a block of any writer. An event that this version does not know is `UnknownEvent`.

    Raises:
        HashMismatch: the bytes do not hash to `expected`.
        UnsupportedBlockVersion: an obsolete version, or one newer than this node knows.
        BlockTooLarge: there are more than `MAX_BLOCK_BYTES`.
        MalformedBlock: the bytes are not a block for any other reason.
    """
    raw = bytes(raw)
    actual = Multihash.of(raw)
    if expected is not None and actual != expected:
        raise HashMismatch(expected, actual, "block")
    return decode_hashed(actual, raw)


def decode_hashed(actual: Multihash, raw: bytes) -> HashedBlock:
    """As `decode_block`, for bytes that are known to hash to `actual`."""
    _check_size(raw)
    try:
        version, content = _opened(raw)
        block: MetadataBlock = read_guarded(content, _read_block)
    except NotKnown as problem:
        raise BadInput(
            "MalformedBlock", f"not a metadata block: {problem}", hash=str(actual)
        ) from None
    except MalformedBuffer as problem:
        raise BadInput(
            "MalformedBlock", f"not a metadata block: {problem}", hash=str(actual)
        ) from None
    return HashedBlock(actual, raw, block, version)


def _check_size(raw: bytes) -> None:
    if len(raw) > MAX_BLOCK_BYTES:
        raise block_too_large()


class BlockFrame(Table, frozen=True, kw_only=True):
    """The position of a block in its chain, without its event."""

    hash: Multihash
    prev: Multihash | None
    sequence_number: int
    event: str
    """Name of the event, or `UnknownEvent`."""


def peek_block(raw: bytes, actual: Multihash | None = None) -> BlockFrame:
    """Return the frame of a block, without reading or checking its event.

    It takes a third of the time of `decode_block`, for callers with many blocks whose hashes
    they trust. `actual` is the hash of the bytes, if it is known. Raises
    `UnsupportedBlockVersion`, `BlockTooLarge`, `MalformedBlock`.
    """
    _check_size(raw)
    try:
        _, content = _opened(raw)
        frame: dict[str, Any] = read_guarded(content, _read_frame)
    except (NotKnown, MalformedBuffer) as problem:
        raise BadInput("MalformedBlock", f"not a metadata block: {problem}") from None
    return BlockFrame(hash=actual or Multihash.of(raw), **frame)


def _read_frame(source: ByteSource, at: int) -> dict[str, Any]:
    layout = _BLOCK.layout(source, at)
    event = "UnknownEvent"
    values: dict[str, Any] = dict(layout.defaults)
    for name, read, offset in layout.steps:
        if name in _FRAME:
            values[name] = read(source, at + offset)
        elif name == "event" and 0 < (tag := source.raw[at + offset]) <= len(_EVENTS):
            event = _EVENTS[tag - 1]
    return {
        "prev": values.get("prev_block_hash"),
        "sequence_number": values["sequence_number"],
        "event": event,
    }


_heads: dict[bytes, BlockVersion] = {}
_head_lengths: tuple[int, ...] = ()


def _opened(raw: bytes) -> tuple[BlockVersion, bytes]:
    """Return version and content of a manifest.

    A writer puts the same bytes before the content of every manifest, so the version that these
    bytes contain is cached. Raises the same errors as `decode_block`.
    """
    for length in _head_lengths:
        known = _heads.get(raw[:length])
        if known is not None:
            start = length + LENGTH_BYTES
            end = start + int.from_bytes(raw[length:start], "little")
            if end <= len(raw):
                return known, raw[start:end]
    manifest: Manifest = read_guarded(raw, _MANIFEST.read)
    version = _block_version(manifest)
    if len(_heads) < HEADS_KEPT:
        _remember(ByteSource(raw), version)
    return version, manifest.content


def _remember(source: ByteSource, version: BlockVersion) -> None:
    """Cache the head of a manifest, unless a part of it is after the content."""
    global _head_lengths
    at = source.follow(0)
    layout = _MANIFEST.layout(source, at)
    content_at = next(at + offset for name, _, offset in layout.steps if name == "content")
    length = source.follow(content_at)
    vtable = at - int.from_bytes(source.raw[at : at + 4], "little", signed=True)
    vtable_end = vtable + int.from_bytes(source.raw[vtable : vtable + 2], "little")
    if max(at + layout.inline, vtable_end) <= length <= MAX_HEAD_BYTES:
        _heads[source.raw[:length]] = version
        _head_lengths = tuple({*_head_lengths, length})


def _block_version(manifest: Manifest) -> BlockVersion:
    if manifest.kind != METADATA_BLOCK_CODE:
        raise BadInput(
            "MalformedBlock",
            f"manifest of kind {manifest.kind:#x}, a metadata block has {METADATA_BLOCK_CODE:#x}",
        )
    if manifest.version in TIMESTAMP_ALIGNMENT:
        return 2 if manifest.version == 2 else 3
    state = "obsolete" if manifest.version == OBSOLETE_VERSION else "unsupported"
    raise BadInput(
        "UnsupportedBlockVersion",
        f"metadata block of {state} version {manifest.version}; this node reads versions 2 and 3",
        version=manifest.version,
    )


def _read_block(source: ByteSource, at: int) -> MetadataBlock:
    """Read the frame strictly, and the event only if this version knows it."""
    layout = _BLOCK.layout(source, at)
    values: dict[str, Any] = layout.defaults.copy()
    tag, unknown = 0, layout.unknown
    for name, read, offset in layout.steps:
        if name != "event":
            values[name] = read(source, at + offset)
            continue
        tag = source.raw[at + offset]
        if unknown is None:
            try:
                values[name] = read(source, at + offset)
            except NotKnown as problem:
                unknown = problem.what
    if unknown is not None:
        values["event"] = _unknown_event(tag, unknown)
    return MetadataBlock(**values)


def _unknown_event(tag: int, what: str) -> UnknownEvent:
    names = UNIONS["MetadataEvent"]
    name = names[tag - 1] if 0 < tag <= len(names) else None
    return UnknownEvent(discriminator=tag, name=name, detail=what)


MessageName = Literal[
    "RawQueryRequest", "RawQueryResponse", "TransformRequest", "TransformResponse"
]
_ROOTS: dict[str, tuple[str, type[Table] | None]] = {
    "RawQueryRequest": ("RawQueryRequest", None),
    "RawQueryResponse": ("RawQueryResponseRoot", RawQueryResponseRoot),
    "TransformRequest": ("TransformRequest", None),
    "TransformResponse": ("TransformResponseRoot", TransformResponseRoot),
}
"""By message: the root table, and the wrapper if the message is a union."""


class MalformedMessage(BadInput):
    """The bytes are not an engine message of that name."""


def encode_message(name: MessageName, value: Table) -> bytes:
    """Return a message as a finished buffer. Raises `Unencodable`."""
    root, wrapper = _ROOTS[name]
    return encode_root(root, wrapper(value=value) if wrapper else value)


def decode_message(name: MessageName, raw: bytes) -> Any:
    """Return the value in a message. Raises `MalformedMessage`."""
    root, wrapper = _ROOTS[name]
    try:
        value = decode_root(root, bytes(raw))
    except (MalformedBuffer, NotKnown) as problem:
        raise MalformedMessage(f"not a {name}: {problem}") from None
    return value.value if wrapper else value
