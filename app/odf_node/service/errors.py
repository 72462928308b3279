"""The table of errors: HTTP status and response body of each error.

The lookup uses the code of the error, then the name of its branch. So a branch of
`odf_protocol/errors.py` gives its status to its errors, unless the table has an entry for the code.
We use names because a failed job reports its error as code and branch, and this process does not
import the classes of workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from odf_protocol.errors import NodeError, branch_of
from odf_storage.runtime.features import installed
from odf_storage.runtime.logs import current_trace, trace_id
from odf_storage.stores.jobs.sql_rows import older_branch
from odf_storage.stores.ports.values import Failed

STATUS: dict[str, HTTPStatus] = {
    # the branches
    "BadInput": HTTPStatus.BAD_REQUEST,
    "NotFound": HTTPStatus.NOT_FOUND,
    "Conflict": HTTPStatus.CONFLICT,
    "Refused": HTTPStatus.FORBIDDEN,
    "LimitExceeded": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "Damaged": HTTPStatus.INTERNAL_SERVER_ERROR,
    "Unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "RemoteFailed": HTTPStatus.BAD_GATEWAY,
    "NodeFault": HTTPStatus.INTERNAL_SERVER_ERROR,
    # codes whose status differs from that of their branch
    "AccessTokenRejected": HTTPStatus.UNAUTHORIZED,
    "AnonymousRestricted": HTTPStatus.UNAUTHORIZED,
    "BasicRefused": HTTPStatus.UNAUTHORIZED,
    "TokenExpired": HTTPStatus.UNAUTHORIZED,
    "TokenInvalid": HTTPStatus.UNAUTHORIZED,
    "TokenMissing": HTTPStatus.UNAUTHORIZED,
    "TokenRefused": HTTPStatus.UNAUTHORIZED,
    "CredentialsRejected": HTTPStatus.UNAUTHORIZED,
    "ProviderBusy": HTTPStatus.SERVICE_UNAVAILABLE,
    "ProviderTokenNotTaken": HTTPStatus.UNAUTHORIZED,
    "SignInNeeded": HTTPStatus.UNAUTHORIZED,
    "ShareTaken": HTTPStatus.TOO_MANY_REQUESTS,
    "AllTaken": HTTPStatus.SERVICE_UNAVAILABLE,
    "QueueFull": HTTPStatus.TOO_MANY_REQUESTS,
    "NodeBusy": HTTPStatus.SERVICE_UNAVAILABLE,
    "RequestKeyReused": HTTPStatus.UNPROCESSABLE_ENTITY,
    "BodyTooSlow": HTTPStatus.REQUEST_TIMEOUT,
    "UnsupportedEncoding": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "TooManyAttempts": HTTPStatus.TOO_MANY_REQUESTS,
    "TooManyDeviceLogins": HTTPStatus.TOO_MANY_REQUESTS,
    "ReaderBrokeProtocol": HTTPStatus.INTERNAL_SERVER_ERROR,
    "ReaderGone": HTTPStatus.SERVICE_UNAVAILABLE,
    "ReadTooSlow": HTTPStatus.SERVICE_UNAVAILABLE,
    "TooManyBegun": HTTPStatus.TOO_MANY_REQUESTS,
    "TooManyUploads": HTTPStatus.TOO_MANY_REQUESTS,
    "Unauthenticated": HTTPStatus.UNAUTHORIZED,
    "UnsupportedMediaType": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "BodyNotJson": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "UnknownField": HTTPStatus.UNPROCESSABLE_ENTITY,
    "QueryQueueFull": HTTPStatus.TOO_MANY_REQUESTS,
    "NotServedByFlight": HTTPStatus.NOT_IMPLEMENTED,
    "QueriesNotEnabled": HTTPStatus.NOT_IMPLEMENTED,
    "QueryResultGone": HTTPStatus.GONE,
    "SigningNotEnabled": HTTPStatus.NOT_IMPLEMENTED,
    "HeaderTooLong": HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "UrlTooLong": HTTPStatus.REQUEST_URI_TOO_LONG,
    "UpgradeRequired": HTTPStatus.UPGRADE_REQUIRED,
    "StorageFull": HTTPStatus.INSUFFICIENT_STORAGE,
    "StorageReadOnly": HTTPStatus.INSUFFICIENT_STORAGE,
    "NotContinued": HTTPStatus.UNPROCESSABLE_ENTITY,
    "MethodNotServed": HTTPStatus.METHOD_NOT_ALLOWED,
    "CatalogueIsReadOnly": HTTPStatus.NOT_ACCEPTABLE,
    # never the response to a request
    "PeerSilent": HTTPStatus.REQUEST_TIMEOUT,
    "ListenerTooSlow": HTTPStatus.REQUEST_TIMEOUT,
    # of installed features
    **{name: HTTPStatus(status) for one in installed() for name, status in one.errors.items()},
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
"""Errors whose body the reference fixes: True for the message as plain text, False for an empty
body."""

PROBLEM_TYPE = "urn:odf-node:problem:"
INTERNAL = "Internal"
INTERNAL_MESSAGE = "Internal error"


def status_of(error: NodeError) -> HTTPStatus:
    """Return the status of an error."""
    return status_of_code(error.code, branch_of(type(error)))


def status_of_failed(failed: Failed) -> HTTPStatus:
    """Return the status for the error of a failed job."""
    return status_of_code(failed.error, failed.branch or older_branch(failed.error))


def status_of_code(code: str, branch: str) -> HTTPStatus:
    """Return the status of a code in a branch; 500 if the table has neither."""
    return STATUS.get(code) or STATUS.get(branch) or HTTPStatus.INTERNAL_SERVER_ERROR


def problem(
    name: str, status: HTTPStatus, message: str, facts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a problem document (RFC 9457) that also has the `message` of the reference node.

    The fact `setting` names the setting that an administrator can change; `detail` includes it,
    and says so if the caller can only wait.
    """
    trace = trace_id(current_trace())
    setting = (facts or {}).get("setting")
    if setting and status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        setting = f"an administrator of the node can raise {setting}"
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
    return problem(error.code, status_of(error), error.message, error.facts)
