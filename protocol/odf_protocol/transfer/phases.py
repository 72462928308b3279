"""The order of messages in a smart exchange, as tables of states and transitions.

Both sides use the same table. A key is the type of a message, with a branch if its content
decides; the value is the next state. Two rules apply to this module:

  * A message that is not in the table is an error, whichever side caused it.
  * It has no socket and no clock. The caller decodes the type that `awaited` returns, and
    passes every message of either direction, received or sent, to `advance`.

Messages carry no tag, and three of the push are plain `{}`. So after `Complete` the server must
send only the confirmation of the commit: a client would mistake a progress request for it.
Source: ODF "Smart transfer protocol", flows as the reference server has them.

Bytes inside of JSON: as an array of numbers, the protocol's form, or as base64.

Four megabytes of archive become fourteen of numbers. So both directions avoid a Python step per
byte and work piece by piece, without the numbers or the text of a whole batch in memory.
Base64 is for peers that agreed on it (`PAYLOAD_HEADER`).

The objects that blocks refer to, and the totals of a transfer.

Source: ODF "Smart transfer protocol"; linked objects are no part of it.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

import msgspec
from msgspec import Raw

from ..errors import BadInput
from ..metadata.events import AddData, ExecuteTransform, HashedBlock
from ..typed import json_decoder
from .messages import (
    BATCH_ENCODING,
    COMPACT_ENCODING,
    REPLIES,
    DatasetMetadataPullResponse,
    DatasetPullMetadataRequest,
    DatasetPullObjectsTransferRequest,
    DatasetPullObjectsTransferResponse,
    DatasetPullRequest,
    DatasetPullResponse,
    DatasetPushComplete,
    DatasetPushCompleteConfirmed,
    DatasetPushMetadataRequest,
    DatasetPushMetadataResponse,
    DatasetPushObjectsTransferRequest,
    DatasetPushObjectsTransferResponse,
    DatasetPushObjectsUploadProgressRequest,
    DatasetPushObjectsUploadProgressResponse,
    DatasetPushRequest,
    DatasetPushResponse,
    MalformedMessage,
    Message,
    ObjectFileReference,
    ObjectType,
    PullPhase,
    PushPhase,
    TransferPhase,
    TransferPlan,
)


class Side(Enum):
    """The sender of a message."""

    CLIENT = "client"
    SERVER = "server"


class PullState(Enum):
    """State of a pull. In states ANSWER… the server has to reply."""

    START = "start"
    ANSWER_REQUEST = "answer request"
    METADATA = "metadata"
    ANSWER_METADATA = "answer metadata"
    OBJECTS = "objects"
    ANSWER_OBJECTS = "answer objects"
    END = "end"


class PushState(Enum):
    """State of a push. In states ANSWER… the server has to reply."""

    START = "start"
    ANSWER_REQUEST = "answer request"
    METADATA = "metadata"
    ANSWER_METADATA = "answer metadata"
    ANSWER_EMPTY_METADATA = "answer empty metadata"
    OBJECTS = "objects"
    ANSWER_OBJECTS = "answer objects"
    ANSWER_TRUNCATED_OBJECTS = "answer truncated objects"
    UPLOADING = "uploading"
    UPLOADING_TRUNCATED = "uploading truncated"
    COMMIT = "commit"
    ANSWER_COMMIT = "answer commit"
    END = "end"


State = PullState | PushState


class Branch(Enum):
    """The transition that the content of a message selects."""

    OK = "ok"
    FAILED = "failed"
    BLOCKS = "blocks"
    NO_BLOCKS = "no blocks"
    ALL = "all objects"
    TRUNCATED = "more objects later"
    RUNNING = "running"
    COMPLETE = "complete"


_Key = tuple[type[Message], Branch | None]

_PULL: dict[State, dict[_Key, State]] = {
    PullState.START: {(DatasetPullRequest, None): PullState.ANSWER_REQUEST},
    PullState.ANSWER_REQUEST: {
        (DatasetPullResponse, Branch.OK): PullState.METADATA,
        (DatasetPullResponse, Branch.FAILED): PullState.END,
    },
    PullState.METADATA: {(DatasetPullMetadataRequest, None): PullState.ANSWER_METADATA},
    PullState.ANSWER_METADATA: {(DatasetMetadataPullResponse, None): PullState.OBJECTS},
    PullState.OBJECTS: {(DatasetPullObjectsTransferRequest, None): PullState.ANSWER_OBJECTS},
    PullState.ANSWER_OBJECTS: {(DatasetPullObjectsTransferResponse, None): PullState.OBJECTS},
    PullState.END: {},
}

_ASK = DatasetPushObjectsUploadProgressRequest
_PROGRESS = DatasetPushObjectsUploadProgressResponse
_OBJECTS = DatasetPushObjectsTransferRequest
_STRATEGIES = DatasetPushObjectsTransferResponse

_PUSH: dict[State, dict[_Key, State]] = {
    PushState.START: {(DatasetPushRequest, None): PushState.ANSWER_REQUEST},
    PushState.ANSWER_REQUEST: {
        (DatasetPushResponse, Branch.OK): PushState.METADATA,
        (DatasetPushResponse, Branch.FAILED): PushState.END,
    },
    PushState.METADATA: {
        (DatasetPushMetadataRequest, Branch.BLOCKS): PushState.ANSWER_METADATA,
        (DatasetPushMetadataRequest, Branch.NO_BLOCKS): PushState.ANSWER_EMPTY_METADATA,
    },
    PushState.ANSWER_METADATA: {
        (DatasetPushMetadataResponse, Branch.OK): PushState.OBJECTS,
        (DatasetPushMetadataResponse, Branch.FAILED): PushState.END,
    },
    PushState.ANSWER_EMPTY_METADATA: {
        (DatasetPushMetadataResponse, Branch.OK): PushState.COMMIT,
        (DatasetPushMetadataResponse, Branch.FAILED): PushState.END,
    },
    PushState.OBJECTS: {
        (_OBJECTS, Branch.ALL): PushState.ANSWER_OBJECTS,
        (_OBJECTS, Branch.TRUNCATED): PushState.ANSWER_TRUNCATED_OBJECTS,
    },
    PushState.ANSWER_OBJECTS: {
        (_STRATEGIES, Branch.OK): PushState.UPLOADING,
        (_STRATEGIES, Branch.FAILED): PushState.END,
    },
    PushState.ANSWER_TRUNCATED_OBJECTS: {
        (_STRATEGIES, Branch.OK): PushState.UPLOADING_TRUNCATED,
        (_STRATEGIES, Branch.FAILED): PushState.END,
    },
    PushState.UPLOADING: {
        (_ASK, None): PushState.UPLOADING,
        (_PROGRESS, Branch.RUNNING): PushState.UPLOADING,
        (_PROGRESS, Branch.COMPLETE): PushState.COMMIT,
    },
    PushState.UPLOADING_TRUNCATED: {
        (_ASK, None): PushState.UPLOADING_TRUNCATED,
        (_PROGRESS, Branch.RUNNING): PushState.UPLOADING_TRUNCATED,
        (_PROGRESS, Branch.COMPLETE): PushState.OBJECTS,
    },
    PushState.COMMIT: {(DatasetPushComplete, None): PushState.ANSWER_COMMIT},
    PushState.ANSWER_COMMIT: {(DatasetPushCompleteConfirmed, None): PushState.END},
    PushState.END: {},
}

NEXT: dict[State, dict[_Key, State]] = _PULL | _PUSH

SPEAKER: dict[type[Message], Side] = {
    DatasetPullRequest: Side.CLIENT,
    DatasetPullResponse: Side.SERVER,
    DatasetPullMetadataRequest: Side.CLIENT,
    DatasetMetadataPullResponse: Side.SERVER,
    DatasetPullObjectsTransferRequest: Side.CLIENT,
    DatasetPullObjectsTransferResponse: Side.SERVER,
    DatasetPushRequest: Side.CLIENT,
    DatasetPushResponse: Side.SERVER,
    DatasetPushMetadataRequest: Side.CLIENT,
    DatasetPushMetadataResponse: Side.SERVER,
    DatasetPushObjectsTransferRequest: Side.CLIENT,
    DatasetPushObjectsTransferResponse: Side.SERVER,
    DatasetPushObjectsUploadProgressRequest: Side.SERVER,
    DatasetPushObjectsUploadProgressResponse: Side.CLIENT,
    DatasetPushComplete: Side.CLIENT,
    DatasetPushCompleteConfirmed: Side.SERVER,
}

MAY_CLOSE: frozenset[State] = frozenset(
    {PullState.METADATA, PullState.OBJECTS, PullState.END, PushState.END}
)
"""States in which the client may close: it is up to date, needs nothing more, or is done."""

PHASES: dict[State, TransferPhase] = {
    PullState.START: TransferPhase(pull=PullPhase.InitialRequest),
    PullState.ANSWER_REQUEST: TransferPhase(pull=PullPhase.InitialRequest),
    PullState.METADATA: TransferPhase(pull=PullPhase.MetadataRequest),
    PullState.ANSWER_METADATA: TransferPhase(pull=PullPhase.MetadataRequest),
    PullState.OBJECTS: TransferPhase(pull=PullPhase.ObjectsRequest),
    PullState.ANSWER_OBJECTS: TransferPhase(pull=PullPhase.ObjectsRequest),
    PullState.END: TransferPhase(pull=PullPhase.ObjectsRequest),
    PushState.START: TransferPhase(push=PushPhase.InitialRequest),
    PushState.ANSWER_REQUEST: TransferPhase(push=PushPhase.InitialRequest),
    PushState.METADATA: TransferPhase(push=PushPhase.MetadataRequest),
    PushState.ANSWER_METADATA: TransferPhase(push=PushPhase.MetadataRequest),
    PushState.ANSWER_EMPTY_METADATA: TransferPhase(push=PushPhase.MetadataRequest),
    PushState.OBJECTS: TransferPhase(push=PushPhase.ObjectsRequest),
    PushState.ANSWER_OBJECTS: TransferPhase(push=PushPhase.ObjectsRequest),
    PushState.ANSWER_TRUNCATED_OBJECTS: TransferPhase(push=PushPhase.ObjectsRequest),
    PushState.UPLOADING: TransferPhase(push=PushPhase.ObjectsUploadProgress),
    PushState.UPLOADING_TRUNCATED: TransferPhase(push=PushPhase.ObjectsUploadProgress),
    PushState.COMMIT: TransferPhase(push=PushPhase.CompleteRequest),
    PushState.ANSWER_COMMIT: TransferPhase(push=PushPhase.CompleteRequest),
    PushState.END: TransferPhase(push=PushPhase.CompleteRequest),
}
"""The phase that an internal error reports in each state. The server creates the target between
messages, and that code itself reports the phase `EnsuringTargetExists`."""


def advance(state: State, message: Message) -> State:
    """Return the state after that message, received or sent.

    Raises:
        UnexpectedMessage: the message is not allowed in this state.
    """
    try:
        return NEXT[state][type(message), branch(message)]
    except KeyError:
        name = type(message).__name__
        raise BadInput(
            "UnexpectedMessage",
            f"{name} does not belong to the state {state.value!r} of a {_flow(state)}",
            state=state.value,
            received=name,
        ) from None


def awaited(state: State, sender: Side) -> type[Message]:
    """Return the only type of message that `sender` may send next, by which its text is decoded.

    Raises:
        UnexpectedMessage: that side may send nothing in this state.
    """
    for kind, _ in NEXT[state]:
        if SPEAKER[kind] is sender:
            return kind
    raise BadInput(
        "UnexpectedMessage",
        f"nothing may come from the {sender.value} in the state {state.value!r} of a "
        f"{_flow(state)}",
        state=state.value,
    )


def branch(message: Any) -> Branch | None:
    """Return the branch that the content of a message selects, or None."""
    if type(message) in REPLIES:
        success, _ = REPLIES[type(message)]
        return Branch.OK if isinstance(message.result, success) else Branch.FAILED
    match message:
        case DatasetPushMetadataRequest(new_blocks=batch):
            return Branch.BLOCKS if batch.num_blocks else Branch.NO_BLOCKS
        case DatasetPushObjectsTransferRequest(is_truncated=is_truncated):
            return Branch.TRUNCATED if is_truncated else Branch.ALL
        case DatasetPushObjectsUploadProgressResponse(details=details):
            return Branch.COMPLETE if details == "Complete" else Branch.RUNNING
    return None


def _flow(state: State) -> str:
    return "pull" if isinstance(state, PullState) else "push"


PIECE_CHARS = 1 << 18
"""Number of characters that are parsed at a time; a multiple of four."""
PIECE_BYTES = 3 << 18
"""Number of bytes that are written at a time; a multiple of three."""

_FOUR_CHARS = b"".join(f"{byte},".encode().ljust(4, b"\0") for byte in range(256))
"""The text of each byte value with a comma, padded with zeros to four bytes."""
_decoder = json_decoder(list[int])
_BLANK = b" \t\r\n"


def encode_payload(content: bytes, encoding: str = BATCH_ENCODING) -> Raw:
    """Return `[31,139,8,…]`, or `"H4sI…"` in base64."""
    return Raw(b"".join(payload_pieces(content, encoding)))


def payload_pieces(content: bytes, encoding: str = BATCH_ENCODING) -> Iterator[bytes]:
    """Yield the text of `encode_payload` in pieces of a few megabytes at most."""
    opening, write, closing = _WRITERS[encoding]
    yield opening
    for at in range(0, len(content), PIECE_BYTES):
        last = at + PIECE_BYTES >= len(content)
        yield write(content[at : at + PIECE_BYTES], last)
    yield closing


def decode_payload(payload: Raw, encoding: str = BATCH_ENCODING) -> Iterator[bytes]:
    """Yield the bytes of such a text, in pieces.

    Raises:
        MalformedMessage: while iterating, for any other text.
    """
    text = memoryview(payload)
    start, end = 0, len(text)
    while start < end and text[start] in _BLANK:
        start += 1
    while end > start and text[end - 1] in _BLANK:
        end -= 1
    yield from _READERS[encoding](text[start:end])


def _as_numbers(content: bytes, last: bool) -> bytes:
    import numpy as np  # not needed to start a service

    padded = np.frombuffer(_FOUR_CHARS, "<u4")[np.frombuffer(content, np.uint8)].tobytes()
    text = padded.translate(None, b"\0")
    return text[:-1] if last else text


def _as_base64(content: bytes, _last: bool) -> bytes:
    return binascii.b2a_base64(content, newline=False)


_WRITERS: dict[str, tuple[bytes, Callable[[bytes, bool], bytes], bytes]] = {
    BATCH_ENCODING: (b"[", _as_numbers, b"]"),
    COMPACT_ENCODING: (b'"', _as_base64, b'"'),
}


def _read_numbers(text: memoryview) -> Iterator[bytes]:
    if len(text) < 2 or (text[0], text[-1]) != tuple(b"[]"):
        raise MalformedMessage("the payload is no array")
    at, end = 1, len(text) - 1
    while at < end:
        stop = min(at + PIECE_CHARS, end)
        piece = bytes(text[at:stop])
        if stop < end:
            stop = at + piece.rfind(b",")
            if stop < at:
                raise MalformedMessage("the payload is no array of numbers from 0 to 255")
        yield _numbers(piece[: stop - at], only=at == 1 and stop == end)
        if stop == end - 1:
            raise MalformedMessage("the payload ends in a comma")
        at = stop + 1


def _numbers(text: bytes, *, only: bool) -> bytes:
    try:
        numbers = _decoder.decode(b"[" + text + b"]")
        if not numbers and not only:
            raise ValueError("a comma too many")
        return bytes(numbers)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise MalformedMessage("the payload is no array of numbers from 0 to 255") from None


def _read_base64(text: memoryview) -> Iterator[bytes]:
    if len(text) < 2 or (text[0], text[-1]) != tuple(b'""'):
        raise MalformedMessage("the payload is no text")
    inner = text[1:-1]
    for at in range(0, len(inner), PIECE_CHARS):
        piece = bytes(inner[at : at + PIECE_CHARS])
        if b"=" in piece and at + PIECE_CHARS < len(inner):
            raise MalformedMessage("the payload is no base64")
        try:
            yield binascii.a2b_base64(piece, strict_mode=True)
        except binascii.Error:
            raise MalformedMessage("the payload is no base64") from None


_READERS: dict[str, Callable[[memoryview], Iterator[bytes]]] = {
    BATCH_ENCODING: _read_numbers,
    COMPACT_ENCODING: _read_base64,
}


def transfer_plan(blocks: Iterable[HashedBlock]) -> TransferPlan:
    """Return totals over the blocks, as their metadata states them."""
    num_blocks = num_objects = num_records = raw_bytes = object_bytes = 0
    for block in blocks:
        num_blocks += 1
        raw_bytes += len(block.raw)
        num_records += _records(block)
        for named in _named(block):
            num_objects += 1
            object_bytes += named.size
    return TransferPlan(
        num_blocks=num_blocks,
        num_objects=num_objects,
        num_records=num_records,
        bytes_in_raw_blocks=raw_bytes,
        bytes_in_raw_objects=object_bytes,
    )


def object_files(blocks: Iterable[HashedBlock]) -> list[ObjectFileReference]:
    """Return data slices and checkpoints in chain order, each once."""
    found: dict[tuple[object, object], ObjectFileReference] = {}
    for block in blocks:
        for named in _named(block):
            found.setdefault((named.object_type, named.physical_hash), named)
    return list(found.values())


def _named(block: HashedBlock) -> Iterator[ObjectFileReference]:
    match block.event:
        case AddData() | ExecuteTransform() as event:
            pairs = (
                (ObjectType.DataSlice, event.new_data),
                (ObjectType.Checkpoint, event.new_checkpoint),
            )
            for object_type, named in pairs:
                if named is not None:
                    yield ObjectFileReference(
                        object_type=object_type,
                        physical_hash=named.physical_hash,
                        size=named.size,
                    )


def _records(block: HashedBlock) -> int:
    match block.event:
        case AddData(new_data=new_data) | ExecuteTransform(new_data=new_data) if new_data:
            interval = new_data.offset_interval
            return max(0, interval.count)
    return 0
