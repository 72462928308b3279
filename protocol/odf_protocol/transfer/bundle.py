"""Bundles of blocks: a gzipped tar with one file per block, named by its hash.

Packing gives the same bytes for the same blocks. Unpacking trusts nothing: it inflates within
limits, parses tar headers itself (GNU, ustar, PAX) and accepts only regular files whose content
has the hash in their name, without duplicates, in the announced number.
Source: ODF "Smart transfer protocol", metadata batch, as the reference writes it.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from zlib import adler32

from msgspec import Raw

from ..codec.blocks import MAX_BLOCK_BYTES, block_too_large, decode_hashed
from ..errors import BadInput, LimitExceeded
from ..metadata.events import HashedBlock
from ..multihash import HashMismatch, MalformedHash, MalformedMultibase, Multihash
from .messages import BATCH_ENCODING, BATCH_MEDIA_TYPE, MetadataBlocksBatch
from .phases import decode_payload, encode_payload

TAR_BLOCK = 512
GZIP = 16 + zlib.MAX_WBITS
LEVEL = 3
"""The default compression level takes twice as long for 6 % less: half of a block is hashes."""
INFLATE_STEP = 1 << 20
"""Bytes inflated between two checks of the limits."""
MAX_PAX_BYTES = 64 << 10
"""Limit in bytes of an extended header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleLimits:
    """Limits for unpacking untrusted bundles. Sizes are in bytes."""

    max_blocks: int = 1_000_000
    max_inflated: int = 256 << 20
    """Size of the inflated tar."""
    max_ratio: int = 200
    """Ratio of inflated to compressed size; checked only beyond `ratio_from` inflated bytes."""
    ratio_from: int = 4 << 20


DEFAULT_LIMITS = BundleLimits()


class Archive(NamedTuple):
    """The number of blocks, and the bytes of the bundle that contains them."""

    num_blocks: int
    content: bytes


def pack(blocks: Iterable[HashedBlock], *, encoding: str = BATCH_ENCODING) -> MetadataBlocksBatch:
    """Pack blocks, oldest first, into a batch. Raw bytes are sent, whatever the block version."""
    archive = archive_of((block.hash, block.raw) for block in blocks)
    return batch_of(archive, encode_payload(archive.content, encoding), encoding)


def archive_of(named: Iterable[tuple[Multihash, bytes]]) -> Archive:
    """Return a gzipped tar for hash and bytes of each block, oldest first."""
    deflate = zlib.compressobj(LEVEL, wbits=GZIP)
    pieces: list[bytes] = []
    count = 0
    for name, raw in named:
        pieces.append(deflate.compress(_entry(str(name), raw)))
        count += 1
    pieces.append(deflate.compress(bytes(2 * TAR_BLOCK)) + deflate.flush())
    return Archive(count, b"".join(pieces))


def batch_of(archive: Archive, payload: Raw, encoding: str = BATCH_ENCODING) -> MetadataBlocksBatch:
    """Return the message part for an archive whose encoded content is `payload`."""
    return MetadataBlocksBatch(
        num_blocks=archive.num_blocks,
        media_type=BATCH_MEDIA_TYPE,
        encoding=encoding,
        payload=payload,
    )


def unpack(
    batch: MetadataBlocksBatch,
    *,
    limits: BundleLimits = DEFAULT_LIMITS,
    encoding: str = BATCH_ENCODING,
    repeats: bool = False,
) -> list[HashedBlock]:
    """Return the blocks of a batch in its order, without checking that they form a chain.

    `encoding` is what the peers agreed on; `BATCH_ENCODING` is always accepted. With `repeats`, a
    block may be there several times.

    Raises:
        MalformedBundle, BundleTooLarge, BlockTooLarge, MalformedMessage, HashMismatch: as
            `raw_blocks`.
        MalformedBlock, UnsupportedBlockVersion: from a block.
    """
    return [decode_hashed(name, raw) for name, raw in _named(batch, limits, encoding, repeats)]


def raw_blocks(
    batch: MetadataBlocksBatch, *, limits: BundleLimits = DEFAULT_LIMITS
) -> Iterator[tuple[Multihash, bytes]]:
    """Yield hash and bytes of each block of a batch, in its order. Only the hash is verified.

    Raises, while iterating:
        MalformedBundle: another media type, damaged gzip or tar, an entry that is not a
            regular file named by a multihash, a duplicate name, another number than announced.
        BundleTooLarge: a limit; the fact `limit` is its value.
        BlockTooLarge: a block above the limit, before it is read.
        MalformedMessage: a payload that is not an array of bytes.
        HashMismatch: bytes whose hash is not their name.
    """
    yield from _named(batch, limits, BATCH_ENCODING)


def _named(
    batch: MetadataBlocksBatch, limits: BundleLimits, encoding: str, repeats: bool = False
) -> Iterator[tuple[Multihash, bytes]]:
    """Yield the verified hash and the content of each entry."""
    if batch.media_type != BATCH_MEDIA_TYPE or batch.encoding not in (BATCH_ENCODING, encoding):
        raise BadInput(
            "MalformedBundle",
            f"a batch has to be {BATCH_MEDIA_TYPE} in encoding {encoding}",
            media_type=batch.media_type[:100],
            encoding=batch.encoding[:100],
        )
    if batch.num_blocks > limits.max_blocks:
        raise LimitExceeded(
            "BundleTooLarge", "the batch has too many blocks", limit=limits.max_blocks
        )
    seen: set[bytes] = set()
    count = 0
    for name, raw in _files(_inflate(decode_payload(batch.payload, batch.encoding), limits)):
        actual = Multihash.of(raw)
        is_repeat = repeats and actual.digest in seen
        if len(seen) == batch.num_blocks and not is_repeat:
            raise BadInput("MalformedBundle", f"more blocks than the {batch.num_blocks} announced")
        if name != str(actual).encode():
            _check_name(name, actual)
        if actual.digest in seen and not is_repeat:
            raise BadInput("MalformedBundle", f"the block {actual} is there twice")
        seen.add(actual.digest)
        count += 1
        yield actual, raw
    if batch.num_blocks not in (len(seen), count):
        raise BadInput(
            "MalformedBundle", f"{len(seen)} blocks where {batch.num_blocks} were announced"
        )


def _check_name(name: bytes, actual: Multihash) -> None:
    """Accept a name that is the same hash in another text form. Raises `HashMismatch`."""
    if (announced := _hash_of_name(name)) != actual:
        raise HashMismatch(announced, actual, "block")


def _hash_of_name(name: bytes) -> Multihash:
    try:
        return Multihash.parse(name.decode("ascii"))
    except (UnicodeDecodeError, MalformedHash, MalformedMultibase):
        raise BadInput(
            "MalformedBundle", f"an entry is named {name[:100]!r}, which is no hash"
        ) from None


# --- gzip -----------------------------------------------------------------------------------


def _inflate(pieces: Iterable[bytes], limits: BundleLimits) -> Iterator[bytes]:
    """Inflate a single complete gzip member without trailing data, step by step."""
    inflate = zlib.decompressobj(wbits=GZIP)
    inflated = compressed = 0
    for piece in pieces:
        compressed += len(piece)
        if inflate.eof:
            break
        while piece:
            try:
                step = inflate.decompress(piece, INFLATE_STEP)
            except zlib.error:
                raise BadInput("MalformedBundle", "the payload is no gzip") from None
            inflated += len(step)
            _check_size(inflated, compressed, limits)
            yield step
            piece = inflate.unconsumed_tail
    if not inflate.eof:
        raise BadInput("MalformedBundle", "the gzip breaks off")
    if inflate.unused_data or piece:
        raise BadInput("MalformedBundle", "something follows the gzip member")


def _check_size(inflated: int, compressed: int, limits: BundleLimits) -> None:
    if inflated > limits.max_inflated:
        raise LimitExceeded(
            "BundleTooLarge", "the bundle inflates to too many bytes", limit=limits.max_inflated
        )
    if inflated > limits.ratio_from and inflated > compressed * limits.max_ratio:
        raise LimitExceeded(
            "BundleTooLarge", "the bundle inflates out of proportion", limit=limits.max_ratio
        )


# --- tar ------------------------------------------------------------------------------------

_EMPTY = tarfile.TarInfo()
_EMPTY.mode, _EMPTY.type = 0, tarfile.AREGTYPE
_HEADER = _EMPTY.tobuf(tarfile.GNU_FORMAT)
"""A header as the reference writes it: GNU, type NUL, nothing but name and size."""
_NAME, _SIZE, _CHECKSUM = slice(100), slice(124, 136), slice(148, 156)
_OWNER, _TIME, _REST = _HEADER[100:124], _HEADER[136:148], _HEADER[156:]

_REGULAR = (b"0", b"\0")


def _entry(name: str, content: bytes) -> bytes:
    """Return header, content, and zeros up to a whole tar block."""
    start = name.encode().ljust(_NAME.stop, b"\0") + _OWNER + b"%011o\0" % len(content) + _TIME
    checksum = b"%06o\0 " % _sum(start + b" " * 8 + _REST)
    return start + checksum + _REST + content + bytes(-len(content) % TAR_BLOCK)


def _sum(header: bytes) -> int:
    """Return the sum of all bytes. The low half of Adler-32 is 1 plus the sum, below 65521."""
    half = TAR_BLOCK // 2
    return (adler32(header[:half]) & 0xFFFF) + (adler32(header[half:]) & 0xFFFF) - 2


class _Reader:
    """Bytes of a tar while it is inflated; only unread bytes are in memory."""

    def __init__(self, steps: Iterator[bytes]) -> None:
        self._steps, self._buffer, self._at = steps, bytearray(), 0

    def read(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer only at the end."""
        while len(self._buffer) - self._at < count:
            step = next(self._steps, None)
            if step is None:
                break
            del self._buffer[: self._at]
            self._at = 0
            self._buffer += step
        read = bytes(self._buffer[self._at : self._at + count])
        self._at += len(read)
        return read

    def rest(self) -> Iterator[bytes]:
        yield bytes(self._buffer[self._at :])
        yield from self._steps


def _files(steps: Iterator[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield name and content of each entry; refuse everything but regular files."""
    tar = _Reader(steps)
    longer: dict[bytes, bytes] = {}
    while header := tar.read(TAR_BLOCK):
        if not any(header):
            break
        kind, size = _checked(header)
        own_size = longer.get(b"size") if kind in _REGULAR else None
        if own_size is not None:
            size = _number(own_size, 10)
        if size > MAX_BLOCK_BYTES:
            raise block_too_large()
        filled = tar.read(size + -size % TAR_BLOCK)
        if len(filled) < size:
            raise BadInput("MalformedBundle", "the tar breaks off")
        content = filled[:size]
        if kind in _REGULAR:
            yield longer.get(b"path", _name(header)), content
            longer = {}
        else:
            longer |= _extension(kind, content)
    else:
        raise BadInput("MalformedBundle", "the tar has no end")
    if longer:
        raise BadInput("MalformedBundle", "a tar header belongs to no file")
    if any(piece.strip(b"\0") for piece in tar.rest()):
        raise BadInput("MalformedBundle", "something follows the tar")


def _checked(header: bytes) -> tuple[bytes, int]:
    """Check the checksum of a header; return type and size of the entry."""
    if len(header) != TAR_BLOCK:
        raise BadInput("MalformedBundle", "the tar breaks off")
    digits = header[_CHECKSUM]
    if _number(digits.strip(b" \0"), 8) != _sum(header) - sum(digits) + 8 * ord(" "):
        raise BadInput("MalformedBundle", "a tar header has a wrong checksum")
    field = header[_SIZE]
    if field[0] & 0x80:  # base 256, for sizes too large for octal digits
        return header[156:157], int.from_bytes(field, "big") & ((1 << 95) - 1)
    return header[156:157], _number(field.strip(b" \0") or b"0", 8)


def _number(digits: bytes, base: int) -> int:
    if not digits.isdigit() or len(digits) > 20:
        raise BadInput("MalformedBundle", "a tar header has no number where one belongs")
    try:
        return int(digits, base)
    except ValueError:
        raise BadInput("MalformedBundle", "a tar header has no number where one belongs") from None


def _name(header: bytes) -> bytes:
    name = header[_NAME].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _extension(kind: bytes, content: bytes) -> dict[bytes, bytes]:
    """Return what a long-name or PAX header says about the following file."""
    if kind not in (b"L", b"x"):
        raise BadInput("MalformedBundle", f"a tar entry of type {kind!r} is no regular file")
    if len(content) > MAX_PAX_BYTES:
        raise LimitExceeded(
            "BundleTooLarge", "an extended tar header is too long", limit=MAX_PAX_BYTES
        )
    if kind == b"L":
        return {b"path": content.rstrip(b"\0")}
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(content):
        digits, blank, _ = content[at : at + 20].partition(b" ")
        end = at + _number(digits, 10)
        record = content[at + len(digits) + 1 : end]
        key, equals, value = record.partition(b"=")
        if not blank or not equals or end > len(content) or value[-1:] != b"\n":
            raise BadInput("MalformedBundle", "an extended tar header cannot be read")
        records[key] = value[:-1]
        at = end
    return records
