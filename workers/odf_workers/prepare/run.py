"""The steps of a source's preparation, chained as streams, with the result in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from odf_protocol.metadata.sources import (
    CompressionFormat,
    PrepStep,
    PrepStepDecompress,
    PrepStepPipe,
)

from ..runtime.input_limits import CHUNK_BYTES, PrepareLimits, check_size
from .gzip import gunzip
from .pipe import check_allowed, pipe
from .zip import unzip


def check_steps(steps: Iterable[PrepStep], limits: PrepareLimits) -> None:
    """Check the steps before there are any bytes. Raises `PipeRefused`."""
    for step in steps:
        if isinstance(step, PrepStepPipe):
            check_allowed(step.command, limits)


def prepare(steps: Iterable[PrepStep], source: Path, folder: Path, limits: PrepareLimits) -> Path:
    """Run the steps, and return the file to read: `source` itself if there are no steps.

    `folder` receives temporary files and the result.

    Raises:
        MalformedArchive, EntryNotFound: a file is not what the steps declare.
        PipeRefused, PipeFailed: a command is not allowed, or failed.
        DecompressionTooLarge: a limit is exceeded.
    """
    ready = source
    chain: Iterator[bytes] | None = None
    for at, step in enumerate(steps):
        if _is_stream(step):
            chain = gunzip(chain if chain is not None else _chunks(ready), limits)
            continue
        if chain is not None:
            ready = _spooled(chain, folder / f"step-{at}", limits)
        chain = BY_FILE[type(step)](step, ready, limits)
    return ready if chain is None else _spooled(chain, folder / "prepared", limits)


def _is_stream(step: PrepStep) -> bool:
    return isinstance(step, PrepStepDecompress) and step.format is CompressionFormat.Gzip


def _unzip(step: PrepStepDecompress, source: Path, limits: PrepareLimits) -> Iterator[bytes]:
    return unzip(source, step.sub_path, limits)


def _pipe(step: PrepStepPipe, source: Path, limits: PrepareLimits) -> Iterator[bytes]:
    return pipe(source, step.command, limits)


BY_FILE: dict[type, Callable[[Any, Path, PrepareLimits], Iterator[bytes]]] = {
    PrepStepDecompress: _unzip,
    PrepStepPipe: _pipe,
}
"""Steps that need their whole input as a file; for example, a zip archive ends with its table of
contents."""


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _spooled(chunks: Iterator[bytes], path: Path, limits: PrepareLimits) -> Path:
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    size = 0
    try:
        with path.open("wb") as out:
            for chunk in chunks:
                size += len(chunk)
                check_size(size, limits)
                out.write(chunk)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path
