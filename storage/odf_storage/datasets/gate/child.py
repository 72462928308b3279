"""The process that opens slices received from strangers, many at a time. A bad one may crash it.

It has a socket to the process that sends requests, the open files it is given, little memory, and
no environment variables. Requests and answers are a length and JSON; the files are sent with the
length.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import socket
import struct
from collections.abc import Sequence
from typing import Any

HEAD = struct.Struct("<I")
MEMORY = struct.Struct("<Q")
"""Bytes of memory that the process may use: what it is told first."""
MAX_FILES = 64
"""Limit of files in one request; below what one message may carry."""
THREADS = 2
AT_ONCE = 8
"""Number of slices whose columns are hashed together."""
SMALL_BYTES = 1 << 20
"""Below this number of bytes, hashing is faster without starting threads."""


KEEPS_LOG = False


def prepare() -> None:
    """Load everything before memory is limited."""
    from . import check, wire  # noqa: F401


def answer(connection: socket.socket) -> None:
    """Answer requests until the other side closes. It first says how much memory may be used."""
    from . import check, wire

    (memory,) = MEMORY.unpack(_exactly(connection, MEMORY.size))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while (received := _received(connection)) is not None:
        request, files = received
        found: object
        try:
            found = _checked(check, *wire.load(request), files)
        except Exception as error:  # a fault of this program; faults of a slice are answers
            found = f"{type(error).__name__}: {error}"
        finally:
            for file in files:
                os.close(file)
        told = json.dumps(found).encode()
        connection.sendall(HEAD.pack(len(told)) + told)


def _received(connection: socket.socket) -> tuple[bytes, list[int]] | None:
    head, files, _, _ = socket.recv_fds(connection, HEAD.size, MAX_FILES)
    if not head:
        return None
    head += _exactly(connection, HEAD.size - len(head))
    (length,) = HEAD.unpack(head)
    return _exactly(connection, length), files


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(min(1 << 20, length - len(parts)))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _checked(
    check: Any, claims: Sequence[Any], limits: Any, files: Sequence[int]
) -> list[list[dict[str, str]]]:
    from ...lanes import expect, hash_all

    contents = [_content(file) for file in files]
    expect(sum(content.size for content in contents))
    results: list[Any] = []
    for at in range(0, len(contents), AT_ONCE):
        group = [
            check.GateCheck(content, claim, limits)
            for content, claim in zip(contents[at:][:AT_ONCE], claims[at:][:AT_ONCE], strict=True)
        ]
        streams = [stream for each in group for stream in each.streams]
        is_small = sum(content.size for content in contents) < SMALL_BYTES
        digests = iter(hash_all(streams, threads=1 if is_small else THREADS))
        results += [each.found([next(digests) for _ in each.streams]) for each in group]
    return [
        [{"reason": one.reason, "message": one.message} for one in findings] for findings in results
    ]


def _content(file: int) -> Any:
    import pyarrow as pa

    if os.fstat(file).st_size == 0:
        return pa.py_buffer(b"")
    return pa.py_buffer(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
