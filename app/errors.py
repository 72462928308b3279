"""The one table: what went wrong → HTTP status, and what an outsider sees of it.

Errors are looked up by class name along their line of ancestors, so a branch of
`protocol/errors.py` answers for its leaves unless a line of its own says otherwise. By name,
because a failed job brings its error as a name from a process this one does not import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from protocol.errors import NodeError
from storage.context import current_trace, trace_id

STATUS: dict[str, HTTPStatus] = {
    # the branches
    "BadInput": HTTPStatus.BAD_REQUEST,
    "NotFound": HTTPStatus.NOT_FOUND,
    "Conflict": HTTPStatus.CONFLICT,
    "Refused": HTTPStatus.FORBIDDEN,
    "LimitExceeded": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "Damaged": HTTPStatus.INTERNAL_SERVER_ERROR,
    # leaves that differ from their branch
    "AnonymousRestricted": HTTPStatus.UNAUTHORIZED,
    "TokenExpired": HTTPStatus.UNAUTHORIZED,
    "TokenInvalid": HTTPStatus.UNAUTHORIZED,
    "TokenRefused": HTTPStatus.UNAUTHORIZED,
    "CredentialsRejected": HTTPStatus.UNAUTHORIZED,
    "QueueFull": HTTPStatus.TOO_MANY_REQUESTS,
    "NodeBusy": HTTPStatus.SERVICE_UNAVAILABLE,
    "RequestKeyReused": HTTPStatus.UNPROCESSABLE_ENTITY,
    "UnsupportedEncoding": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "TooManyAttempts": HTTPStatus.TOO_MANY_REQUESTS,
    "TooManyDeviceLogins": HTTPStatus.TOO_MANY_REQUESTS,
    "TooManyReads": HTTPStatus.TOO_MANY_REQUESTS,
    "TooManyUploads": HTTPStatus.TOO_MANY_REQUESTS,
    "Unauthenticated": HTTPStatus.UNAUTHORIZED,
    "UnsupportedMediaType": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "UpgradeRequired": HTTPStatus.UPGRADE_REQUIRED,
    # another node did not do its part
    "TransferFailed": HTTPStatus.BAD_GATEWAY,
    # the node's own object store does not do its part
    "Unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "DatabaseUnavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "StoreUnavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "StorageFull": HTTPStatus.INSUFFICIENT_STORAGE,
    "StorageReadOnly": HTTPStatus.INSUFFICIENT_STORAGE,
    "StoreMisconfigured": HTTPStatus.INTERNAL_SERVER_ERROR,
    # what a worker refuses, by name: its classes are not imported here
    "BadInputSchema": HTTPStatus.BAD_REQUEST,
    "BadRow": HTTPStatus.BAD_REQUEST,
    "CannotMerge": HTTPStatus.BAD_REQUEST,
    "EngineFailed": HTTPStatus.BAD_REQUEST,
    "IncompatibleSchema": HTTPStatus.BAD_REQUEST,
    "InvalidInputInterval": HTTPStatus.CONFLICT,
    "InvalidQuery": HTTPStatus.BAD_REQUEST,
    "QueryTooSlow": HTTPStatus.BAD_REQUEST,
    "InvalidSetting": HTTPStatus.BAD_REQUEST,
    "NotIncremental": HTTPStatus.BAD_REQUEST,
    "BrokenInput": HTTPStatus.INTERNAL_SERVER_ERROR,
    "UnreadableCheckpoint": HTTPStatus.INTERNAL_SERVER_ERROR,
    "ForeignState": HTTPStatus.BAD_REQUEST,
    "EngineNotStarted": HTTPStatus.BAD_GATEWAY,
    "MalformedJob": HTTPStatus.BAD_REQUEST,
    "MalformedParquet": HTTPStatus.BAD_REQUEST,
    "MalformedShapefile": HTTPStatus.BAD_REQUEST,
    "NotARootDataset": HTTPStatus.BAD_REQUEST,
    "NotVerifiable": HTTPStatus.BAD_REQUEST,
    "SnapshotNotWhole": HTTPStatus.BAD_REQUEST,
    "SourceNotFound": HTTPStatus.BAD_REQUEST,
    "TooManyBadRows": HTTPStatus.BAD_REQUEST,
    "SubPathNotFound": HTTPStatus.BAD_REQUEST,
    "RowsVanished": HTTPStatus.BAD_REQUEST,
    "SchemaNotKnown": HTTPStatus.BAD_REQUEST,
    "TransformNotDefined": HTTPStatus.BAD_REQUEST,
    "UnexpectedNulls": HTTPStatus.BAD_REQUEST,
    "Unsupported": HTTPStatus.BAD_REQUEST,
    "UnsupportedByEngine": HTTPStatus.BAD_REQUEST,
    "UnsupportedEngine": HTTPStatus.BAD_REQUEST,
    "InputTooLarge": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "ClassesNotKept": HTTPStatus.INTERNAL_SERVER_ERROR,
    "JavaNotFound": HTTPStatus.INTERNAL_SERVER_ERROR,
    "JobAbandoned": HTTPStatus.INTERNAL_SERVER_ERROR,
    "NotValidated": HTTPStatus.CONFLICT,
    "SliceDamaged": HTTPStatus.INTERNAL_SERVER_ERROR,
    "JobLost": HTTPStatus.CONFLICT,
    # what keeps a worker from fetching a source; a refusal concerns the source, not the caller
    "EntryNotFound": HTTPStatus.BAD_REQUEST,
    "EventTimeNotFound": HTTPStatus.BAD_REQUEST,
    "ExpansionTooLong": HTTPStatus.BAD_REQUEST,
    "InvalidParameterFormat": HTTPStatus.BAD_REQUEST,
    "InvalidPattern": HTTPStatus.BAD_REQUEST,
    "MalformedArchive": HTTPStatus.BAD_REQUEST,
    "MalformedSource": HTTPStatus.BAD_REQUEST,
    "PipeFailed": HTTPStatus.BAD_REQUEST,
    "PipeRefused": HTTPStatus.BAD_REQUEST,
    "SourceRefused": HTTPStatus.BAD_REQUEST,
    "ValueNotFound": HTTPStatus.BAD_REQUEST,
    "DecompressionTooLarge": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "FetchedTooLarge": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "ContainerBrokeProtocol": HTTPStatus.BAD_GATEWAY,
    "ContainerFailed": HTTPStatus.BAD_GATEWAY,
    "SourceMissing": HTTPStatus.BAD_GATEWAY,
    "SourceUnreachable": HTTPStatus.BAD_GATEWAY,
    # faults of this process, never an answer to a request
    "AddressInUse": HTTPStatus.INTERNAL_SERVER_ERROR,
    "PeerSilent": HTTPStatus.REQUEST_TIMEOUT,
}

BARE: dict[str, bool] = {
    "MalformedBearer": True,
    "AnonymousRestricted": True,
    "MalformedAddress": False,
    "DatasetHidden": False,
    "TokenInvalid": True,
    "TokenExpired": True,
    "ActionForbidden": False,
    "UnreadableHash": True,
    "VersionMissing": True,
}
"""Answers whose body the reference fixes: plain text of the message, or nothing at all."""

PROBLEM_TYPE = "urn:odf-node:problem:"
INTERNAL = "Internal"
INTERNAL_MESSAGE = "Internal error"


def status_of(error: NodeError | type[NodeError]) -> HTTPStatus:
    """The status that answers an error; 500 for one that no branch answers for."""
    kind = error if isinstance(error, type) else type(error)
    for ancestor in kind.__mro__:
        if ancestor.__name__ in STATUS:
            return STATUS[ancestor.__name__]
    return HTTPStatus.INTERNAL_SERVER_ERROR


def status_of_name(name: str) -> HTTPStatus:
    """The same for the class name a failed job reports."""
    if name in STATUS:
        return STATUS[name]
    known = next((kind for kind in descendants(NodeError) if kind.__name__ == name), None)
    return HTTPStatus.INTERNAL_SERVER_ERROR if known is None else status_of(known)


def descendants(kind: type[NodeError]) -> Iterator[type[NodeError]]:
    """Every class below `kind` that has been imported."""
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


def problem(
    name: str, status: HTTPStatus, message: str, facts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The problem document of RFC 9457, with the `message` of the reference node beside it.

    The fact `setting` is the one an administrator changes: the detail names it.
    """
    trace = trace_id(current_trace())
    setting = (facts or {}).get("setting")
    return {
        **(facts or {}),
        **({"traceId": trace} if trace else {}),
        "type": "about:blank" if name == INTERNAL else PROBLEM_TYPE + name,
        "title": status.phrase,
        "status": int(status),
        "detail": f"{message} ({setting})" if setting else message,
        "message": message,
    }


def problem_of(error: NodeError) -> dict[str, Any]:
    return problem(type(error).__name__, status_of(error), error.message, error.facts)
