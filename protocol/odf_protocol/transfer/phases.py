"""The order of messages in a smart exchange, as tables of states and transitions.

Both sides use the same table. A key is the type of a message, with a branch if its content
decides; the value is the next state. Two rules apply to this module:

  * A message that is not in the table is an error, whichever side caused it.
  * It has no socket and no clock. The caller decodes the type that `awaited` returns, and
    passes every message of either direction, received or sent, to `advance`.

Messages carry no tag, and three of the push are plain `{}`. So after `Complete` the server must
send only the confirmation of the commit: a client would mistake a progress request for it.
Source: ODF "Smart transfer protocol", flows as the reference server has them.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..errors import BadInput
from .messages import (
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
    Message,
    PullPhase,
    PushPhase,
    TransferPhase,
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


class UnexpectedMessage(BadInput):
    """The message is not allowed in the current state of the exchange."""


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
        raise UnexpectedMessage(
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
    raise UnexpectedMessage(
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
