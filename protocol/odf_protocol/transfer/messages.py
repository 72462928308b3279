"""Messages of the smart transfer protocol, as the reference peer sends them.

Every message is one JSON text without a tag; its type follows from the state of the exchange
(`phases.py`). Fields are snake_case, variants PascalCase. Absent optional fields count as null and
are written as null; unknown fields are ignored; all other fields are required. Replies that can
fail are sent as `{"Ok": …}` or `{"Err": {"Variant": …}}`: a `Reply` contains either its success
or one of the errors.

The published AsyncAPI document says camelCase, base64 and `application/tar`, but peers use other
forms. This module models the forms that peers really exchange.
Source: ODF "Smart transfer protocol" (RFC-008), corrected by observation.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct, field

from ..errors import BadInput, LimitExceeded, NodeError
from ..identity import DatasetId
from ..instant import Instant
from ..multihash import Multihash
from ..typed import decode_json

PROTOCOL_VERSION = 1
VERSION_HEADER = "x-odf-smtp-version"
BATCH_MEDIA_TYPE = "application/tar+gzip"
BATCH_ENCODING = "raw"
PAYLOAD_HEADER = "x-odf-node-payload"
"""Extension of this project: a client requests `COMPACT_ENCODING`, a willing server repeats it."""
COMPACT_ENCODING = "base64"
OBJECTS_HEADER = "x-odf-node-objects"
"""Extension of this project: a client that sends `IN_URLS` may get small objects in URLs that begin
with `INLINE` instead of URLs where they can be fetched."""
IN_URLS = "inline"
INLINE = "data:application/octet-stream;base64,"
MAX_MESSAGE_BYTES = 64 << 20
"""Limit in bytes of a message that a peer accepts; longer ones are refused unread."""
MAX_CLOSE_REASON_BYTES = 123
"""Limit in bytes that RFC 6455 sets for the reason of a Close frame."""
CLOSE_INTERNAL = 1011
CLOSE_NORMAL = 1000
PULL_SUCCEEDED = "Client pull flow succeeded"
PUSH_SUCCEEDED = "Client push flow succeeded"
INTERNAL_ERROR = "Internal error"

U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
U64 = Annotated[int, Meta(ge=0)]
"""The upper limit is `MAX_U64`, which `Meta` cannot express."""
MAX_U64 = 2**64 - 1
I32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class MalformedMessage(BadInput):
    """The text is not the message that the exchange expects."""


class Visibility(StrEnum):
    """Visibility of a dataset that a push creates. Names are read in any case."""

    Private = "Private"
    Public = "Public"

    @classmethod
    def _missing_(cls, value: object) -> Visibility | None:
        return cls.__members__.get(value.capitalize()) if isinstance(value, str) else None


class ObjectType(StrEnum):
    DataSlice = "DataSlice"
    Checkpoint = "Checkpoint"


class PullPhase(StrEnum):
    """The phase in which a pull failed."""

    InitialRequest = "InitialRequest"
    MetadataRequest = "MetadataRequest"
    ObjectsRequest = "ObjectsRequest"


class PushPhase(StrEnum):
    """The phase in which a push failed."""

    InitialRequest = "InitialRequest"
    MetadataRequest = "MetadataRequest"
    ObjectsRequest = "ObjectsRequest"
    EnsuringTargetExists = "EnsuringTargetExists"
    ObjectsUploadProgress = "ObjectsUploadProgress"
    CompleteRequest = "CompleteRequest"


class Message(Struct, frozen=True, kw_only=True):
    """Base class of messages and of their parts."""


def _check_u64(*numbers: int) -> None:
    if max(numbers) > MAX_U64:
        raise ValueError(f"a number of more than 64 bits: {max(numbers)}")


# --- shared parts ---------------------------------------------------------------------------


class TransferPlan(Message, frozen=True, kw_only=True):
    """What a transfer will move. For information only, except for `num_blocks`."""

    num_blocks: U32
    num_objects: U32
    num_records: U64
    bytes_in_raw_blocks: U64
    bytes_in_raw_objects: U64

    def __post_init__(self) -> None:
        _check_u64(self.num_records, self.bytes_in_raw_blocks, self.bytes_in_raw_objects)


class ObjectFileReference(Message, frozen=True, kw_only=True):
    """One data slice or checkpoint; `size` is in bytes."""

    object_type: ObjectType
    physical_hash: Multihash
    size: U64

    def __post_init__(self) -> None:
        _check_u64(self.size)


class Header(Message, frozen=True, kw_only=True):
    name: str
    value: str


class TransferUrl(Message, frozen=True, kw_only=True):
    """URL to get or put an object, with the headers to send, in order."""

    url: str
    headers: tuple[Header, ...]
    expires_at: Instant | None = None


class MetadataBlocksBatch(Message, frozen=True, kw_only=True):
    """Blocks as a bundle. `payload` is a JSON array of byte values: see `bundle.py`."""

    num_blocks: U32
    media_type: str
    encoding: str
    payload: Raw


class TransferPhase(Message, frozen=True, kw_only=True, omit_defaults=True):
    """The phase of a push or of a pull; exactly one of them is set."""

    push: PushPhase | None = field(default=None, name="Push")
    pull: PullPhase | None = field(default=None, name="Pull")

    def __post_init__(self) -> None:
        if (self.push is None) == (self.pull is None):
            raise ValueError("a phase is either of a push or of a pull")


# --- what can go wrong ----------------------------------------------------------------------


class Internal(Message, frozen=True, kw_only=True):
    """The server failed; the client is informed of the phase, not of the cause."""

    phase: TransferPhase
    error_message: str


class InvalidInterval(Message, frozen=True, kw_only=True):
    """`tail` is not an ancestor of `head`: the client is ahead or has diverged."""

    head: Multihash
    tail: Multihash


class InvalidHead(Message, frozen=True, kw_only=True):
    """The head moved. The names mislead: `actual_head` is the head that the client claimed."""

    actual_head: Multihash | None = None
    expected_head: Multihash | None = None


class SeedBlockOverwriteRestricted(Message, frozen=True, kw_only=True):
    """A forced push must not replace a dataset by a different one."""


class RefCollision(Message, frozen=True, kw_only=True):
    """The server has the dataset id under another alias."""

    dataset_id: DatasetId


class NameCollision(Message, frozen=True, kw_only=True):
    """The alias belongs to another dataset."""

    dataset_alias: str


# --- pull -----------------------------------------------------------------------------------


class DatasetPullRequest(Message, frozen=True, kw_only=True):
    """1, client: requests blocks after `begin_after` up to and including `stop_at`."""

    begin_after: Multihash | None = None
    stop_at: Multihash | None = None
    force_update_if_diverged: bool


class DatasetPullSuccess(Message, frozen=True, kw_only=True):
    transfer_plan: TransferPlan


class DatasetPullResponse(Message, frozen=True, kw_only=True):
    """2, server."""

    result: DatasetPullSuccess | InvalidInterval | Internal | SeedBlockOverwriteRestricted


class DatasetPullMetadataRequest(Message, frozen=True, kw_only=True):
    """3, client."""


class DatasetMetadataPullResponse(Message, frozen=True, kw_only=True):
    """4, server; not wrapped."""

    blocks: MetadataBlocksBatch


class DatasetPullObjectsTransferRequest(Message, frozen=True, kw_only=True):
    """5, client; may be skipped or repeated."""

    object_files: tuple[ObjectFileReference, ...]


class PullStrategy(Message, frozen=True, kw_only=True):
    """How to get an object. There is only one strategy, so its name may be absent on input."""

    object_file: ObjectFileReference
    pull_strategy: Literal["HttpDownload"] = "HttpDownload"
    download_from: TransferUrl


class DatasetPullObjectsTransferResponse(Message, frozen=True, kw_only=True):
    """6, server; not wrapped."""

    object_transfer_strategies: tuple[PullStrategy, ...]


# --- push -----------------------------------------------------------------------------------


class DatasetPushRequest(Message, frozen=True, kw_only=True):
    """1, client: `current_head` is the head it found on the server."""

    current_head: Multihash | None = None
    transfer_plan: TransferPlan
    force_update_if_diverged: bool
    visibility_for_created_dataset: Visibility


class Accepted(Message, frozen=True, kw_only=True):
    """Success without content."""


class DatasetPushResponse(Message, frozen=True, kw_only=True):
    """2, server."""

    result: Accepted | InvalidHead | Internal


class DatasetPushMetadataRequest(Message, frozen=True, kw_only=True):
    """3, client."""

    new_blocks: MetadataBlocksBatch


class DatasetPushMetadataResponse(Message, frozen=True, kw_only=True):
    """4, server."""

    result: Accepted | SeedBlockOverwriteRestricted


class DatasetPushObjectsTransferRequest(Message, frozen=True, kw_only=True):
    """5, client; a further one follows after the uploads if `is_truncated`."""

    object_files: tuple[ObjectFileReference, ...]
    is_truncated: bool


class PushStrategy(Message, frozen=True, kw_only=True):
    """How to upload an object. `upload_to` is set exactly for `HttpUpload`."""

    object_file: ObjectFileReference
    push_strategy: Literal["SkipUpload", "HttpUpload"]
    upload_to: TransferUrl | None = None


class ObjectsTransferStrategies(Message, frozen=True, kw_only=True):
    object_transfer_strategies: tuple[PushStrategy, ...]


class DatasetPushObjectsTransferResponse(Message, frozen=True, kw_only=True):
    """6, server."""

    result: ObjectsTransferStrategies | RefCollision | NameCollision | Internal


class DatasetPushObjectsUploadProgressRequest(Message, frozen=True, kw_only=True):
    """7, server, every ten seconds while objects are uploaded."""


class UploadedSoFar(Message, frozen=True, kw_only=True):
    uploaded_objects_count: I32


class Running(Message, frozen=True, kw_only=True):
    running: UploadedSoFar = field(name="Running")


class DatasetPushObjectsUploadProgressResponse(Message, frozen=True, kw_only=True):
    """8, client: still running, or all uploaded."""

    details: Running | Literal["Complete"]


class DatasetPushComplete(Message, frozen=True, kw_only=True):
    """9, client: commit."""


class DatasetPushCompleteConfirmed(Message, frozen=True, kw_only=True):
    """10, server: committed."""


Reply = (
    DatasetPullResponse
    | DatasetPushResponse
    | DatasetPushMetadataResponse
    | DatasetPushObjectsTransferResponse
)
"""Messages that are wrapped in `Ok` or `Err`."""

_PULL_ERRORS = (InvalidInterval, Internal, SeedBlockOverwriteRestricted)
_PUSH_ERRORS = (InvalidHead, Internal)
_OBJECTS_ERRORS = (RefCollision, NameCollision, Internal)
REPLIES: dict[type[Any], tuple[type[Message], tuple[type[Message], ...]]] = {
    DatasetPullResponse: (DatasetPullSuccess, _PULL_ERRORS),
    DatasetPushResponse: (Accepted, _PUSH_ERRORS),
    DatasetPushMetadataResponse: (Accepted, (SeedBlockOverwriteRestricted,)),
    DatasetPushObjectsTransferResponse: (ObjectsTransferStrategies, _OBJECTS_ERRORS),
}
"""For each reply the content of `Ok`, and the variants of `Err`."""


# --- text -----------------------------------------------------------------------------------

M = TypeVar("M", bound=Message)


def encode(message: Message) -> str:
    """Return the compact JSON text of a message, in the reference's spelling."""
    if type(message) not in REPLIES:
        return _encoder.encode(message).decode()
    success, _ = REPLIES[type(message)]
    result = message.result  # type: ignore[attr-defined]
    if isinstance(result, success):
        return _encoder.encode({"Ok": result}).decode()
    return _encoder.encode({"Err": {type(result).__name__: result}}).decode()


def decode(text: str | bytes, kind: type[M], *, max_bytes: int = MAX_MESSAGE_BYTES) -> M:
    """Decode a message of the given kind.

    Raises:
        MalformedMessage: no JSON, no UTF-8, a missing field, a wrong type, an unknown variant.
        MessageTooLarge: longer than `max_bytes`.
    """
    if len(text) > max_bytes:
        raise LimitExceeded(
            "MessageTooLarge", f"the message is longer than {max_bytes} bytes", limit=max_bytes
        )
    try:
        if isinstance(text, bytes):
            text = text.decode()  # checks UTF-8 also in ignored fields, which msgspec skips
        return _decode_reply(text, kind) if kind in REPLIES else _part(text, kind)
    except (msgspec.MsgspecError, NodeError, ValueError, RecursionError) as error:
        raise MalformedMessage(
            f"not a {kind.__name__}: {str(error)[:200]}", expected=kind.__name__
        ) from None


def close_reason(reply: Reply) -> str:
    """Return JSON for the reason of a Close frame (code 1011): at most 123 bytes of UTF-8.

    A reply that is too long is replaced by an internal error of the phase in which it occurred.
    """
    text = encode(reply)
    if len(text.encode()) <= MAX_CLOSE_REASON_BYTES:
        return text
    result = reply.result
    phase = result.phase if isinstance(result, Internal) else _PHASES[type(reply)]
    internal = Internal(phase=phase, error_message=INTERNAL_ERROR)
    return _encoder.encode({"Err": {"Internal": internal}}).decode()


_PHASES: dict[type[Any], TransferPhase] = {
    DatasetPullResponse: TransferPhase(pull=PullPhase.InitialRequest),
    DatasetPushResponse: TransferPhase(push=PushPhase.InitialRequest),
    DatasetPushMetadataResponse: TransferPhase(push=PushPhase.MetadataRequest),
    DatasetPushObjectsTransferResponse: TransferPhase(push=PushPhase.EnsuringTargetExists),
}
"""The phase in which each reply reports a failure."""


def _decode_reply(text: str | bytes, kind: type[M]) -> M:
    success, errors = REPLIES[kind]
    tag, content = _only_entry(text)
    if tag == "Ok":
        return kind(result=_part(content, success))
    if tag != "Err":
        raise ValueError("neither Ok nor Err")
    variant, content = _only_entry(content)
    for error in errors:
        if error.__name__ == variant:
            return kind(result=_part(content, error))
    raise ValueError(f"unknown error {variant[:60]!r}")


def _only_entry(text: str | bytes | Raw) -> tuple[str, Raw]:
    entries = decode_json(text, dict[str, Raw])
    if len(entries) != 1:
        raise ValueError("not exactly one variant")
    return next(iter(entries.items()))


def _part(text: str | bytes | Raw, kind: type[M]) -> M:
    return decode_json(text, kind, dec_hook=_from_text)


_PARSERS: dict[type, Any] = {
    Multihash: Multihash.parse,
    DatasetId: DatasetId.parse,
    Instant: Instant.parse,
}
_encoder = msgspec.json.Encoder(enc_hook=str)


def _from_text(kind: type, value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"{kind.__name__} is not text")
    return _PARSERS[kind](value)
