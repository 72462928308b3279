"""What preparation may use, and how a step says that the input is not what it must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from odf_node.protocol.errors import BadInput, LimitExceeded

CHUNK_BYTES = 256 * 1024
RATIO_FLOOR_BYTES = 10 << 20
"""So much may come out of anything: short files of zeros are no attack."""


class MalformedArchive(BadInput):
    """Bytes that are no archive of the declared format, or a damaged one."""


class EntryNotFound(BadInput):
    """The archive has no entry of the wanted name."""


class DecompressionTooLarge(LimitExceeded):
    """More comes out of an archive than this node takes."""


class PipeRefused(BadInput):
    """A command this node does not run."""


class PipeFailed(BadInput):
    """A command ended badly, took too long, or wrote too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareLimits:
    """Bytes that may come out of a step, how often larger than what went in, entries of an
    archive; commands that may run, by the exact name used in the source, and for how long."""

    max_bytes: int = 16 << 30
    max_ratio: int = 1_000
    max_entries: int = 10_000
    commands: frozenset[str] = frozenset()
    command_seconds: float = 600.0


def within(chunks: Iterator[bytes], limits: PrepareLimits, *, read: list[int]) -> Iterator[bytes]:
    """The chunks, as long as they are not too many for what was read so far (`read[0]` bytes).

    Raises:
        DecompressionTooLarge: by size, or by ratio.
    """
    written = 0
    for chunk in chunks:
        written += len(chunk)
        check_size(written, limits)
        if written > max(RATIO_FLOOR_BYTES, limits.max_ratio * read[0]):
            raise DecompressionTooLarge(
                f"the archive grows more than {limits.max_ratio} times when it is unpacked",
                limit="max_ratio",
                value=limits.max_ratio,
                setting="ODF_WORKER_MAX_UNPACK_RATIO",
            )
        yield chunk


def check_size(written: int, limits: PrepareLimits) -> None:
    """Raises `DecompressionTooLarge` above the limit in bytes."""
    if written > limits.max_bytes:
        raise DecompressionTooLarge(
            f"more than {limits.max_bytes} bytes come out of the preparation",
            limit="max_bytes",
            value=limits.max_bytes,
            setting="ODF_WORKER_MAX_FETCHED_BYTES",
        )
