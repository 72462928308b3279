"""Serve an engine to any coordinator that uses the engine protocol.

While a query runs, the server sends progress messages to the caller. A request names files on the
machine of the engine. If root folders are given, paths outside of them are refused.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from odf_protocol.codec.blocks import MalformedMessage, decode_message, encode_message
from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseProgress,
    TransformRequest,
    TransformResponseInternalError,
    TransformResponseProgress,
)

from ...runtime.command import LOGGER, line
from ..port.port import Engine, EngineListener
from .remote import (
    ABOUT_METHOD,
    ABOUT_SERVICE,
    LATE_KEY,
    MESSAGE_BYTES,
    RAW_QUERY,
    SERVICE,
    TRANSFORM,
    WARNING_KEY,
    EngineCall,
    unwrapped,
    wrapped,
)

PROGRESS_SECONDS = 2.0
MAX_WARNINGS = 10
WARNING_CHARS = 500
INTERNAL = "the engine failed for a reason of its own; its log says more"
_PROGRESS = {RAW_QUERY: RawQueryResponseProgress(), TRANSFORM: TransformResponseProgress()}
_FAILURE = {RAW_QUERY: RawQueryResponseInternalError, TRANSFORM: TransformResponseInternalError}


class Served(EngineListener):
    """Listener of a served query: queues progress and the final response, and keeps warnings."""

    def __init__(self) -> None:
        self.said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.warnings: list[str] = []
        self.late_rows = 0
        self._stops: list[Callable[[], None]] = []
        self._left = False
        self._lock = threading.Lock()

    def stops(self, stop: Callable[[], None]) -> None:
        with self._lock:
            self._stops.append(stop)
            left = self._left
        if left:
            stop()

    def answered(self, answer: Any) -> None:
        with self._lock:
            self._stops.clear()
        self.said.put(answer)

    def left(self) -> None:
        """Handle the end of the call: stop the query if it still runs."""
        with self._lock:
            self._left, stops = True, list(self._stops)
        for stop in stops:
            stop()

    def progress(self) -> None:
        self.said.put(None)

    def warning(self, text: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(text[:WARNING_CHARS])

    def late(self, rows: int) -> None:
        self.late_rows += rows


def serve(
    engine: Engine,
    address: str,
    *,
    at_once: int = 1,
    roots: Sequence[Path] = (),
    message_bytes: int = MESSAGE_BYTES,
) -> tuple[grpc.Server, int]:
    """Start serving, and return the server and its port. Up to `at_once` queries run at a time,
    others wait.

    Raises:
        OSError: the address is in use.
    """
    options = [
        ("grpc.max_receive_message_length", message_bytes),
        ("grpc.max_send_message_length", message_bytes),
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.server(ThreadPoolExecutor(at_once, "engine"), options=options)
    calls = {
        RAW_QUERY.method: _handler(partial(_answers, engine, RAW_QUERY, roots)),
        TRANSFORM.method: _handler(partial(_answers, engine, TRANSFORM, roots)),
    }
    about = {ABOUT_METHOD: grpc.unary_unary_rpc_method_handler(partial(_about, engine))}
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(SERVICE, calls),
            grpc.method_handlers_generic_handler(ABOUT_SERVICE, about),
        )
    )
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as taken:
        raise OSError(f"cannot listen at {address}") from taken
    server.start()
    return server, port


def _handler(answers: Callable[[bytes, Any], Iterator[bytes]]) -> Any:
    return grpc.unary_stream_rpc_method_handler(answers)


def _about(engine: Engine, _request: bytes, _context: Any) -> bytes:
    return f"{engine.name}\n{engine.version}".encode()


def _answers(
    engine: Engine, call: EngineCall, roots: Sequence[Path], message: bytes, context: Any
) -> Iterator[bytes]:
    try:
        request = decode_message(call.request, unwrapped(message))
    except MalformedMessage as bad:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, bad.message)
    if (outside := _outside(request, roots)) is not None:
        context.abort(grpc.StatusCode.PERMISSION_DENIED, f"{outside!r} is outside of my folders")
    heard = Served()
    if not context.add_callback(heard.left):
        return  # the call has ended already
    threading.Thread(
        target=_run, args=(engine, call, request, heard), name=f"{engine.name} query", daemon=True
    ).start()
    while True:
        try:
            answer = heard.said.get(timeout=PROGRESS_SECONDS)
        except queue.Empty:
            answer = None
        if answer is not None:
            break
        yield wrapped(encode_message(call.response, _PROGRESS[call]))
    told: list[tuple[str, str | bytes]] = [(WARNING_KEY, t.encode()) for t in heard.warnings]
    told += [(LATE_KEY, str(heard.late_rows))] if heard.late_rows else []
    context.set_trailing_metadata(told)
    yield wrapped(encode_message(call.response, answer))


def _run(engine: Engine, call: EngineCall, request: Any, heard: Served) -> None:
    """Run the query and queue its response; any exception becomes an internal error."""
    try:
        if isinstance(request, RawQueryRequest):
            answer: Any = engine.execute_raw_query(request, heard)
        else:
            answer = engine.execute_transform(request, heard)
    except Exception:
        LOGGER.exception(line("engine failed", engine=engine.name, call=call.method))
        answer = _FAILURE[call](message=INTERNAL)
    heard.answered(answer)


def _outside(request: RawQueryRequest | TransformRequest, roots: Sequence[Path]) -> str | None:
    """Return a path of the request that is not below any of the folders, if there is one."""
    if not roots:
        return None
    allowed = [root.resolve() for root in roots]
    for path in paths_of(request):
        # A path with a zero byte is invalid, and `resolve` would raise.
        if "\0" in path or not any(Path(path).resolve().is_relative_to(r) for r in allowed):
            return path
    return None


def paths_of(request: RawQueryRequest | TransformRequest) -> Iterator[str]:
    """Yield every path that a request names."""
    if isinstance(request, RawQueryRequest):
        yield from (*request.input_data_paths, request.output_data_path)
        return
    for item in request.query_inputs:
        yield from (*item.data_paths, item.schema_file)
    yield from (request.new_data_path, request.new_checkpoint_path)
    if request.prev_checkpoint_path is not None:
        yield request.prev_checkpoint_path
