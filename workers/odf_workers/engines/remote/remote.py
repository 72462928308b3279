"""Client of the engine protocol: `Engine` for an engine at an address.

Requests name files by path, so both sides must see the same folders.

The gRPC layer of the engine protocol: the names of its calls, and its one-field messages.

Every message of the protocol is a protobuf message with a single field, `bytes flatbuffer = 1`.
That is simple enough to encode and decode without generated code.
Source: ODF engine protocol, proto3 package `engine`.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from odf_protocol.codec.blocks import MalformedMessage, MessageName, decode_message, encode_message
from odf_protocol.flight_sql import MalformedProtobuf, bytes_field, fields
from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponse,
    RawQueryResponseInternalError,
    RawQueryResponseProgress,
    TransformRequest,
    TransformResponse,
    TransformResponseInternalError,
    TransformResponseProgress,
)

from ..port.port import QUERY_SECONDS, QUIET, EngineListener, Untraced

SERVICE = "engine.Engine"
MESSAGE_BYTES = 64 << 20
"""Bytes of the longest message to send or accept; a request names every slice that it reads."""
WARNING_KEY = "odf-warning-bin"
"""Key of trailing metadata with a warning for the author of the query, as UTF-8."""
LATE_KEY = "odf-late-rows"
"""Key of trailing metadata with the number of rows that came too late."""
ABOUT_SERVICE = "odf.node.EngineInfo"
ABOUT_METHOD = "Describe"
"""A call that this project adds to the protocol. It returns the name and version of the engine, as
two lines of text."""

_BUFFER = 1
"""Number of the only field."""


@dataclass(frozen=True, slots=True)
class EngineCall:
    """One call: its name and its request and response messages."""

    method: str
    request: MessageName
    response: MessageName

    @property
    def path(self) -> str:
        return f"/{SERVICE}/{self.method}"


RAW_QUERY = EngineCall("ExecuteRawQuery", "RawQueryRequest", "RawQueryResponse")
TRANSFORM = EngineCall("ExecuteTransform", "TransformRequest", "TransformResponse")


def wrapped(buffer: bytes) -> bytes:
    """Wrap a buffer in a message."""
    return bytes_field(_BUFFER, buffer)


def unwrapped(message: bytes) -> bytes:
    """Return the buffer in a message; unknown fields are ignored.

    Raises:
        MalformedMessage: the bytes are no protobuf message, or it has no buffer.
    """
    buffer = None
    try:
        for number, value in fields(message):
            if number == _BUFFER and isinstance(value, bytes):
                buffer = value
    except MalformedProtobuf as bad:
        raise MalformedMessage(bad.message) from None
    if buffer is None:
        raise MalformedMessage("the message holds no flatbuffer")
    return buffer


ABOUT_SECONDS = 10.0
WARNINGS_SECONDS = 1.0
MAX_DIGITS = 15
"""Limit of digits of a number that an engine reports."""
QUIET_SECONDS = 2.0
"""Seconds without a message from an engine after which the listener is asked whether to wait."""
UNKNOWN_VERSION = "unknown"
_FAILURE = {RAW_QUERY: RawQueryResponseInternalError, TRANSFORM: TransformResponseInternalError}
_PROGRESS = (RawQueryResponseProgress, TransformResponseProgress)


class RemoteEngine(Untraced):
    """`Engine` at an address. The engine reports its version, if it supports that call."""

    def __init__(
        self,
        name: str,
        address: str,
        *,
        seconds: float = QUERY_SECONDS,
        message_bytes: int = MESSAGE_BYTES,
    ) -> None:
        self.name = name
        self._address, self._seconds = address, seconds
        self._version = UNKNOWN_VERSION
        self._options = [
            ("grpc.max_receive_message_length", message_bytes),
            ("grpc.max_send_message_length", message_bytes),
        ]

    @property
    def version(self) -> str:
        """Request the version each time, since the engine may have been replaced by another one.

        If the engine does not respond, return its last known version. Engines of other projects
        lack this call, and are pinned by their name.
        """
        with self._channel() as channel:
            ask = channel.unary_unary(f"/{ABOUT_SERVICE}/{ABOUT_METHOD}")
            try:
                _, _, said = ask(b"", timeout=ABOUT_SECONDS).decode().partition("\n")
            except (grpc.RpcError, UnicodeDecodeError):
                return self._version
        self._version = "_".join(said.split()) or UNKNOWN_VERSION
        return self._version

    def execute_raw_query(
        self, request: RawQueryRequest, listener: EngineListener = QUIET
    ) -> RawQueryResponse:
        answer: RawQueryResponse = self._ask(RAW_QUERY, request, listener)
        return answer

    def execute_transform(
        self, request: TransformRequest, listener: EngineListener = QUIET
    ) -> TransformResponse:
        answer: TransformResponse = self._ask(TRANSFORM, request, listener)
        return answer

    def _ask(
        self, call: EngineCall, request: RawQueryRequest | TransformRequest, to: EngineListener
    ) -> Any:
        failure = _FAILURE[call]
        with self._channel() as channel:
            message = wrapped(encode_message(call.request, request))
            answers = channel.unary_stream(call.path)(message, timeout=self._seconds)
            to.stops(answers.cancel)
            try:
                answer = _final(call, answers, to)
            except grpc.RpcError as failed:
                return failure(message=f"{self.name} at {self._address}: {_told(failed)}")
            except MalformedMessage as bad:
                return failure(message=f"{self.name} at {self._address}: {bad.message}")
            finally:
                answers.cancel()
        if answer is None:
            return failure(message=f"{self.name} at {self._address} ended without an answer")
        return answer

    @contextlib.contextmanager
    def _channel(self) -> Iterator[grpc.Channel]:
        with grpc.insecure_channel(self._address, options=self._options) as channel:
            yield channel


def _final(call: EngineCall, answers: Any, to: EngineListener) -> Any:
    """Return the first response that is not progress, without waiting for later ones."""
    for message in _heard(answers, to):
        answer = decode_message(call.response, unwrapped(message))
        if not isinstance(answer, _PROGRESS):
            _tell(answers, to)
            return answer
        to.progress()
    return None


def _heard(answers: Any, to: EngineListener) -> Iterator[bytes]:
    """Yield the messages of an engine. During a pause call the listener, which may raise."""
    said: queue.SimpleQueue[bytes | Exception | None] = queue.SimpleQueue()

    def listen() -> None:
        try:
            for message in answers:
                said.put(message)
            said.put(None)
        except Exception as failed:  # the call failed, or its reader cancelled it
            said.put(failed)

    threading.Thread(target=listen, name="engine answers", daemon=True).start()
    while True:
        try:
            message = said.get(timeout=QUIET_SECONDS)
        except queue.Empty:
            to.progress()
            continue
        if message is None:
            return
        if isinstance(message, Exception):
            raise message
        yield message


def _tell(answers: Any, to: EngineListener) -> None:
    """Pass on what an engine of this project adds when it ends the call, which it does directly
    after the response: warnings, and the number of late rows."""
    ended = threading.Event()
    answers.add_done_callback(lambda _: ended.set())
    if not ended.wait(WARNINGS_SECONDS):
        return
    for key, value in answers.trailing_metadata() or ():
        if key == WARNING_KEY:
            to.warning(value.decode("utf-8", "replace"))
        if key == LATE_KEY and value.isdecimal() and len(value) < MAX_DIGITS:
            to.late(int(value))


def _told(failed: Any) -> str:
    return f"{failed.details() or 'no answer'} ({failed.code().name})"
