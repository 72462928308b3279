"""The steps of a source's preparation, chained as streams, with the result in one file.

Pass bytes through a command of the machine. The node must allow the command by name.

The command runs without a shell, in an empty folder, with only a search path and a locale in its
environment, for a limited time; the limits of preparation apply to its output.

Gzip as a stream: unpack all members in their order.

Unpack one entry of a zip archive: by exact name, else by glob pattern, else the first.

Bzip2 and zstd as streams: unpack all of their parts in order.
"""

from __future__ import annotations

import bz2
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from odf_protocol.errors import BadInput, LimitExceeded
from odf_protocol.metadata.sources import (
    CompressionFormat,
    PrepStep,
    PrepStepDecompress,
    PrepStepPipe,
)
from odf_storage.runtime.private_files import DAMAGED, entries_of, unpacked

from ..runtime.command import CHUNK_BYTES, Command, PrepareLimits, check_size, output_of, within
from ..runtime.progress import Content, opened

ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8"}


def check_allowed(arguments: tuple[str, ...], limits: PrepareLimits) -> None:
    """Raise `PipeRefused` if the command is not on the list."""
    if not arguments or arguments[0] not in limits.commands:
        raise BadInput(
            "PipeRefused",
            "the source pipes its data through a command that this node does not run: "
            "its administrator can allow it by name",
            command=arguments[0] if arguments else None,
            setting="ODF_WORKER_PIPE_COMMANDS",
        )


def pipe(source: Path, arguments: tuple[str, ...], limits: PrepareLimits) -> Iterator[bytes]:
    """Yield the command's output for the file as its input.

    Raises:
        PipeRefused: the command is not on the list.
        PipeFailed: it cannot be started, its exit code is not 0, or it takes too long.
        DecompressionTooLarge: its output exceeds the limits.
    """
    check_allowed(arguments, limits)
    written = 0
    with tempfile.TemporaryDirectory(prefix="pipe-", dir=source.parent) as folder:
        command = Command(
            arguments=arguments,
            stdin=source,
            folder=Path(folder),
            environment=ENVIRONMENT,
            seconds=limits.command_seconds,
            failure=partial(BadInput, "PipeFailed"),
        )
        for chunk in output_of(command):
            written += len(chunk)
            check_size(written, limits)
            yield chunk


GZIP = 16 + zlib.MAX_WBITS


def gunzip(chunks: Iterable[bytes], limits: PrepareLimits) -> Iterator[bytes]:
    """Yield the content of every member. Zeros after the last one are padding.

    Raises:
        MalformedArchive: the input is not gzip, damaged, or cut short.
        DecompressionTooLarge: the content exceeds the limits.
    """
    read = [0]
    return within(members(chunks, read), limits, read=read)


def members(chunks: Iterable[bytes], read: list[int]) -> Iterator[bytes]:
    """Yield the content of every member in chunks of limited size; the caller limits their sum.
    `read[0]` counts the packed bytes. Raises `MalformedArchive`."""
    member = None
    begun = 0
    for chunk in chunks:
        read[0] += len(chunk)
        data = chunk
        while data:
            if member is None:
                data = data.lstrip(b"\0") if begun else data
                if not data:
                    break
                member = zlib.decompressobj(GZIP)
                begun += 1
            try:
                out = member.decompress(data, CHUNK_BYTES)
            except zlib.error as bad:
                raise BadInput(
                    "MalformedArchive", f"the input is no intact gzip file ({bad})"
                ) from None
            if out:
                yield out
            data = member.unconsumed_tail
            if member.eof:
                data, member = member.unused_data, None
    if member is not None or begun == 0:
        raise BadInput(
            "MalformedArchive", "the gzip file is cut short" if begun else "the input is empty"
        )


DIRECTORY_BYTES = 4 << 20
"""Limit of the table of contents in bytes, since the library keeps it in memory."""


class _Bounded:
    """A file that limits each read to the size of a table of contents."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell
        self.seekable, self.close = stream.seekable, stream.close

    def read(self, size: int = -1) -> bytes:
        wanted = DIRECTORY_BYTES + 1 if size < 0 else min(size, DIRECTORY_BYTES + 1)
        data = self._stream.read(wanted)
        if len(data) > DIRECTORY_BYTES:
            raise LimitExceeded(
                "DecompressionTooLarge",
                f"the table of contents of the archive is longer than {DIRECTORY_BYTES} bytes",
                limit="directory_bytes",
                value=DIRECTORY_BYTES,
            )
        return data


def unzip(
    content: Content, sub_path: str | None, limits: PrepareLimits, told: list[str] | None = None
) -> Iterator[bytes]:
    """Yield the bytes of one entry. `told` receives a warning if others may be meant.

    Raises:
        MalformedArchive: the file is not zip, damaged, encrypted, or packed in an unsupported way.
        EntryNotFound: no entry has that name.
        DecompressionTooLarge: the content, or the number of entries, exceeds the limits.
    """
    with opened(content) as stream:
        archive = _opened(stream, limits)
        entry = _entry(archive, sub_path, told)
        yield from within(_content(archive, entry), limits, read=[entry.compress_size])


def entry_names(content: Content, limits: PrepareLimits) -> list[str]:
    """Return the names of the files in an archive. Raises `MalformedArchive`,
    `DecompressionTooLarge`."""
    with opened(content) as stream:
        archive = _opened(stream, limits)
        return [entry.filename for entry in entries_of(archive)]


def _opened(stream: BinaryIO, limits: PrepareLimits) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(cast("BinaryIO", _Bounded(stream)))
    except DAMAGED as bad:
        raise BadInput("MalformedArchive", f"the input is no intact zip file ({bad})") from None
    if len(archive.filelist) > limits.max_entries:
        raise LimitExceeded(
            "DecompressionTooLarge",
            f"the archive has {len(archive.filelist)} entries, at most {limits.max_entries} "
            "are taken",
            limit="max_entries",
            value=limits.max_entries,
        )
    return archive


def _entry(
    archive: zipfile.ZipFile, sub_path: str | None, told: list[str] | None
) -> zipfile.ZipInfo:
    files = entries_of(archive)
    if sub_path is not None:
        exact = [entry for entry in files if entry.filename == sub_path]
        files = exact or [entry for entry in files if fnmatchcase(entry.filename, sub_path)]
    if not files:
        what = "is empty" if sub_path is None else f"has no entry {sub_path!r}"
        raise BadInput("EntryNotFound", f"the archive {what}", sub_path=sub_path)
    if told is not None and len(files) > 1:
        meant = "" if sub_path is None else f" of the name {sub_path!r}"
        told.append(
            f"the archive holds {len(files)} files{meant}, and {files[0].filename!r} alone, the "
            "first, is read: subPath can name another one"
        )
    return files[0]


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    try:
        yield from unpacked(archive, entry, piece_bytes=CHUNK_BYTES)
    except DAMAGED as bad:
        raise BadInput(
            "MalformedArchive",
            f"the entry {entry.filename!r} cannot be unpacked: {bad}",
            entry=entry.filename,
        ) from None


def check_steps(steps: Iterable[PrepStep], limits: PrepareLimits) -> None:
    """Check the steps before there are any bytes. Raises `PipeRefused`."""
    for step in steps:
        if isinstance(step, PrepStepPipe):
            check_allowed(step.command, limits)


def prepare(
    steps: Iterable[PrepStep],
    source: Path,
    folder: Path,
    limits: PrepareLimits,
    told: list[str] | None = None,
) -> Path:
    """Run the steps, and return the file to read: `source` itself if there are no steps.

    `folder` receives temporary files and the result, `told` warnings for the publisher.

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
        chain = BY_FILE[type(step)](step, ready, limits, told)
    return ready if chain is None else _spooled(chain, folder / "prepared", limits)


def _is_stream(step: PrepStep) -> bool:
    return isinstance(step, PrepStepDecompress) and step.format is CompressionFormat.Gzip


def _unzip(
    step: PrepStepDecompress, source: Path, limits: PrepareLimits, told: list[str] | None
) -> Iterator[bytes]:
    return unzip(source, step.sub_path, limits, told)


def _pipe(
    step: PrepStepPipe, source: Path, limits: PrepareLimits, _: list[str] | None
) -> Iterator[bytes]:
    return pipe(source, step.command, limits)


BY_FILE: dict[type, Callable[[Any, Path, PrepareLimits, list[str] | None], Iterator[bytes]]] = {
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


def bunzip2(chunks: Iterable[bytes], limits: PrepareLimits) -> Iterator[bytes]:
    """Unpack bzip2. Raises `MalformedArchive`, `DecompressionTooLarge`."""
    read = [0]
    return within(_bunzipped(_counted(chunks, read)), limits, read=read)


def unzstd(chunks: Iterable[bytes], limits: PrepareLimits) -> Iterator[bytes]:
    """Unpack zstd. Raises `MalformedArchive`, `DecompressionTooLarge`."""
    read = [0]
    return within(_unzstd(_counted(chunks, read)), limits, read=read)


def _counted(chunks: Iterable[bytes], read: list[int]) -> Iterator[bytes]:
    for chunk in chunks:
        read[0] += len(chunk)
        yield chunk


def _bunzipped(chunks: Iterator[bytes]) -> Iterator[bytes]:
    stream, has_begun = bz2.BZ2Decompressor(), False
    for chunk in chunks:
        data = chunk
        while data or not stream.needs_input:
            if stream.eof:
                data = stream.unused_data + data
                stream, has_begun = bz2.BZ2Decompressor(), False
                if not data:
                    break
            try:
                out = stream.decompress(data, CHUNK_BYTES)
            except (OSError, ValueError) as bad:
                raise BadInput(
                    "MalformedArchive", f"the input is no intact bzip2 file ({bad})"
                ) from None
            data, has_begun = b"", True
            if out:
                yield out
    if not stream.eof and has_begun:
        raise BadInput("MalformedArchive", "the bzip2 file is cut short")


def _unzstd(chunks: Iterator[bytes]) -> Iterator[bytes]:
    try:
        with pa.CompressedInputStream(pa.PythonFile(_Chunks(chunks), "r"), "zstd") as stream:
            while out := stream.read(CHUNK_BYTES):
                yield out
    except (pa.ArrowException, OSError) as bad:
        raise BadInput(
            "MalformedArchive", f"the input is no intact zstd file ({str(bad)[:200]})"
        ) from None


class _Chunks(io.RawIOBase):
    """Presents chunks as a file that can be read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if not self._rest:
            self._rest = next(self._chunks, b"")
        wanted = len(self._rest) if size < 0 else size
        piece, self._rest = self._rest[:wanted], self._rest[wanted:]
        return piece
