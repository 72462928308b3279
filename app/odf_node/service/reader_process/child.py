"""One reader: receives a task, answers it and ends. The system enforces its limits, also on C code.

It ends if it needs too much memory or sends nothing for too long (`wire.py`), and as soon as the
service closes the other end of its socket.
"""

from __future__ import annotations

import io
import logging
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.errors import LimitExceeded, NodeError
from odf_storage.datasets.read.formats import Format, encoded
from odf_storage.datasets.read.geometries import PLACE
from odf_storage.runtime.logs import set_up
from odf_storage.stores.ports.values import Failed

from ..readers.messages import (
    PIECE_BYTES,
    FrameKind,
    OpenedSlices,
    failed_frame,
    frame,
    learned_frame,
    slices_frame,
)
from ..readers.tasks import Order
from .wire import Wire
from .work import run

KEEPS_LOG = True
"""Readers write to the log of the service; they run no code of strangers."""
_log = logging.getLogger("odf.reader")


def prepare() -> None:
    """Set up the log, and read and encode a small table, so that readers inherit the caches."""
    set_up("warning", "text")
    table = pa.table({"n": [1, 2], PLACE: [None, '{"type":"Point","coordinates":[0,0]}']})
    file = io.BytesIO()
    pq.write_table(table, file)
    batches = list(pq.ParquetFile(file, pre_buffer=False).iter_batches(use_threads=False))
    for form in Format:
        list(encoded(table.schema, iter(batches), form))


def answer(link: socket.socket) -> None:
    """Receive one task and answer it."""
    _end_with(link)
    wire = Wire(link)
    try:
        order = wire.order()
        for raw in _answer(order, wire):
            wire.say(raw)
    except (BrokenPipeError, ConnectionResetError):
        return  # the service has closed the socket


def _answer(order: Order, wire: Wire) -> Iterator[bytes]:
    """Yield the frames of an answer; the last one says how it ended."""
    try:
        for piece in run(order.task, wire):
            if not isinstance(piece, bytes):
                yield _TOLD[type(piece)](piece)
                continue
            view = memoryview(piece)
            for at in range(0, len(view), PIECE_BYTES):
                yield frame(FrameKind.PIECE, view[at : at + PIECE_BYTES])
    except MemoryError:  # Arrow's as well
        yield failed_frame(
            Failed.of(
                LimitExceeded(
                    "ReaderMemoryFull",
                    f"reading these rows takes more than {order.limits.memory_bytes} bytes of "
                    "memory; ask for fewer, or for fewer columns",
                    limit=order.limits.memory_bytes,
                    setting="ODF_NODE_READER_MEMORY_BYTES",
                )
            )
        )
    except (BrokenPipeError, ConnectionResetError):
        raise
    except NodeError as error:
        yield failed_frame(Failed.of(error))
    except Exception:
        _log.exception("a reader crashed")
        yield failed_frame(Failed("Internal", ""))
    else:
        yield frame(FrameKind.END)


_TOLD: dict[type[Any], Callable[[Any], bytes]] = {
    int: lambda size: frame(FrameKind.SIZE, struct.pack("!Q", size)),
    OpenedSlices: slices_frame,
    list: learned_frame,
}
"""Makers of frames about an answer, by type of the value; other values are bytes of the answer."""


def _end_with(link: socket.socket) -> None:
    """End this process as soon as the service closes its end, even during a computation."""
    watched = select.poll()
    watched.register(link, select.POLLRDHUP)

    def wait() -> None:
        watched.poll()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
