"""Limits of the preparation of inputs, and errors of steps that reject an input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from odf_protocol.errors import BadInput, LimitExceeded

CHUNK_BYTES = 256 * 1024
RATIO_FLOOR_BYTES = 10 << 20
"""Every archive may unpack to this size, so that short files of zeros are not taken for an
attack."""


class MalformedArchive(BadInput):
    """The bytes are not an archive of the declared format, or a damaged one."""


class EntryNotFound(BadInput):
    """The archive has no entry of the requested name."""


class DecompressionTooLarge(LimitExceeded):
    """An archive unpacks to more than the limit of this node."""


class PipeRefused(BadInput):
    """The node does not allow this command."""


class PipeFailed(BadInput):
    """A command failed, took too long, or wrote too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareLimits:
    """Limits of a step: bytes of its output, ratio of output to input, entries of an archive;
    commands that may run, by the exact name used in the source, and the time limit of each in
    seconds."""

    max_bytes: int = 16 << 30
    max_ratio: int = 1_000
    max_entries: int = 10_000
    commands: frozenset[str] = frozenset()
    command_seconds: float = 600.0


def within(chunks: Iterator[bytes], limits: PrepareLimits, *, read: list[int]) -> Iterator[bytes]:
    """Yield the chunks, as long as their size is allowed for the input read so far (`read[0]`
    bytes).

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
    """Raise `DecompressionTooLarge` above the limit in bytes."""
    if written > limits.max_bytes:
        raise DecompressionTooLarge(
            f"more than {limits.max_bytes} bytes come out of the preparation",
            limit="max_bytes",
            value=limits.max_bytes,
            setting="ODF_WORKER_MAX_FETCHED_BYTES",
        )
