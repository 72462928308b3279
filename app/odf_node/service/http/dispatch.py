"""Dispatch of every request: find the route, identify the actor, serve, report errors.

A path with an encoded slash is refused. The server passes on decoded paths, in which
`/account%2fname/tail` has three segments; a proxy in front of the node, which may filter
addresses by their segments, sees two.

Requests of S3 clients, which address files as objects in buckets, path-style.

Authentication of all requests except those for pages, and the policy for anonymous ones.

A malformed credential is refused before any other check.

Errors in the forms of other protocols: Delta Sharing, Iceberg, JSON-RPC, OData,
S3.

Each form has a code for programs and a text for people. Sources: Delta Sharing protocol; Iceberg
REST catalog, `ErrorModel`; S3, "Error responses".
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from xml.sax.saxutils import escape

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from odf_protocol.errors import BadInput, NodeError, Refused
from odf_protocol.s3.signature import ALGORITHM, S3Request
from odf_storage.runtime.logs import add_facts

from ..auth.access import admit
from ..auth.actors import ANONYMOUS, Actor, bearer_of
from ..auth.dataset_access import Callers
from ..auth.signed_urls import READS, S3Callers, no_such_s3_key, s3_reads_only, signature_of
from ..errors import status_of
from ..limits.shares import Coalescer
from ..setting_groups.words import AnonymousReads
from ..settings import Settings
from .addresses import SOCKET, Addresses, is_open, path_of
from .answers import HEADERS_ONLY, JsonAnswer, crash_answer, error_answer, not_found_answer
from .bodies import Paced
from .sending import Sending, is_own_host, preflight_answer

_SCHEME = ALGORITHM.encode()


def is_s3(scope: Scope) -> bool:
    """Return whether the request claims to have an S3 signature. It is not verified here."""
    return scope["type"] == "http" and any(
        name == b"authorization" and value.startswith(_SCHEME) for name, value in scope["headers"]
    )


def s3_request(scope: Scope) -> S3Request:
    """Return the parts of the request that its S3 signature covers."""
    return S3Request(
        scope["method"],
        (scope.get("raw_path") or scope["path"].encode()).decode("latin-1"),
        scope["query_string"].decode("latin-1"),
        scope["headers"],
    )


TAKE_PASSWORDS = ("/odata/",)
"""Folders whose clients may send a token as a password: spreadsheets have no field for tokens."""


class Authentication:
    """Identifies the actor of a request. Concurrent requests share one lookup of their tokens."""

    def __init__(self, callers: Callers, s3_callers: S3Callers, *, allow_anonymous: bool) -> None:
        self._s3_callers = s3_callers
        self._coalescer = Coalescer(callers.identify_all)
        self._allow_anonymous = allow_anonymous

    async def actor(self, scope: Scope) -> Actor:
        """Return the actor of the request.

        Raises:
            MalformedBearer, AnonymousRestricted, NoSuchS3Key, and the errors of
            `S3Callers.identify`.
        """
        if is_s3(scope):
            return await self._signer(scope)
        takes_passwords = scope["path"].startswith(TAKE_PASSWORDS)
        bearer = bearer_of(scope["headers"], takes_passwords=takes_passwords)
        actor = ANONYMOUS
        if bearer is not None:
            actor = await self._coalescer.ask(bearer)
            add_facts(actor=actor.account.name if actor.account else None)
        if not self._allow_anonymous and not is_open(scope["path"]) and not _is_signed(scope):
            admit(actor, allow_anonymous=False)
        return actor

    async def _signer(self, scope: Scope) -> Actor:
        """Return the actor whose S3 keys signed the request for the dataset of the address.

        Raises:
            NoSuchS3Key: the address serves nothing to S3 clients. S3ReadsOnly, and the other
                errors of `S3Callers.identify`.
        """
        if not getattr(scope.get("route"), "takes_s3", False):
            raise no_such_s3_key() if scope["method"] in READS else s3_reads_only()
        path, asked = path_of(scope), s3_request(scope)
        identify = self._s3_callers.identify
        return await run_in_threadpool(identify, asked, path.account, path.dataset)


def _is_signed(scope: Scope) -> bool:
    """Return whether the URL is signed and its route authorizes by that signature alone."""
    takes_signed = getattr(scope.get("route"), "takes_signed", False)
    return takes_signed and signature_of(scope["query_string"]) is not None


SHARING_CODES = {
    400: "INVALID_PARAMETER_VALUE",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    413: "RESOURCE_EXHAUSTED",
    429: "REQUEST_LIMIT_EXCEEDED",
    503: "TEMPORARILY_UNAVAILABLE",
}
"""Codes by status; any other status has `INTERNAL_ERROR`."""
ICEBERG_TYPES = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    406: "UnsupportedOperationException",
    413: "BadRequestException",
    503: "ServiceUnavailableException",
}
"""Error types by status; any other status has `InternalServerError`."""
ICEBERG_NAMES = ("NoSuchTable", "NoSuchNamespace", "NoSuchWarehouse")
"""Names of errors that Iceberg defines itself: their type is the name with `Exception`."""
S3_CODES = {
    400: "InvalidRequest",
    403: "AccessDenied",
    404: "NoSuchKey",
    429: "SlowDown",
    503: "ServiceUnavailable",
}
"""Codes by status; any other status has `InternalError`."""
S3_NAMES = {
    "MalformedS3Signature": "AuthorizationHeaderMalformed",
    "S3KeysExpired": "ExpiredToken",
    "S3ClockOff": "RequestTimeTooSkewed",
}
JSON_RPC_REFUSED = -32000
"""The code of errors of a server, in JSON-RPC."""
BASIC_CHALLENGE = 'Basic realm="any name, and a token as the password", charset="UTF-8"'
KEPT = ("retry-after", "ratelimit", "ratelimit-policy", "www-authenticate")
"""Headers with the same meaning in every protocol."""


def error_answer_for(scope: Scope, error: NodeError, *, explained: bool = False) -> Response:
    """Return the response for an error, as `error_answer`, in the protocol of the client."""
    plain = error_answer(error, explained=explained)
    told = _form(scope)
    if told is None:
        return plain
    answer = told(int(status_of(error)), error.code, error.message)
    for name in KEPT:
        if name in plain.headers:
            answer.headers.setdefault(name, plain.headers[name])
    return answer


def _sharing(status: int, _: str, message: str) -> Response:
    code = SHARING_CODES.get(status, "INTERNAL_ERROR")
    return JsonAnswer({"errorCode": code, "message": message}, status)


def _iceberg(status: int, name: str, message: str) -> Response:
    if name in ICEBERG_NAMES:
        kind = f"{name}Exception"
    else:
        kind = ICEBERG_TYPES.get(status, "InternalServerError")
    return JsonAnswer({"error": {"message": message, "type": kind, "code": status}}, status)


def _s3(status: int, name: str, message: str) -> Response:
    code = S3_NAMES.get(name) or S3_CODES.get(status, "InternalError")
    text = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return Response(f'<?xml version="1.0" encoding="UTF-8"?>\n{text}', status, None, XML)


def _json_rpc(status: int, name: str, message: str) -> Response:
    headers = None
    if status == 401:
        message += "; `odf-node token create` makes a token, and public datasets need none"
        headers = {"www-authenticate": "Bearer"}
    error = {"code": JSON_RPC_REFUSED, "message": f"{name}: {message}"}
    return JsonAnswer({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)


def _odata(status: int, name: str, message: str) -> Response:
    headers = {"odata-version": "4.0"}
    if status == 401:
        headers["www-authenticate"] = BASIC_CHALLENGE
    return JsonAnswer({"error": {"code": name, "message": message}}, status, headers)


XML = "application/xml"
_FORMS: dict[str, Callable[[int, str, str], Response]] = {
    "/delta-sharing/": _sharing,
    "/iceberg/": _iceberg,
    "/mcp/": _json_rpc,
    "/odata/": _odata,
}
"""Functions that make the response, by the prefix of the path."""


def _form(scope: Scope) -> Callable[[int, str, str], Response] | None:
    if is_s3(scope):
        return _s3
    path = f"{scope['path']}/"  # an address is in its own folder
    return next((form for folder, form in _FORMS.items() if path.startswith(folder)), None)


ENCODED_SLASHES = (b"%2f", b"%5c")
BODILESS = frozenset({"GET", "HEAD", "OPTIONS", SOCKET})
"""Methods of requests whose body is never read."""
_log = logging.getLogger("odf.node")


class Dispatch:
    """ASGI application inside `Observed`. The framework, `rest`, serves all addresses that the
    table does not contain."""

    def __init__(
        self,
        addresses: Addresses,
        rest: ASGIApp,
        authentication: Authentication,
        settings: Settings,
    ) -> None:
        self._addresses, self._rest, self._authentication = addresses, rest, authentication
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Sending) -> None:
        if not is_plain(scope):
            refused = error_answer(
                BadInput("MalformedAddress", "an address has no encoded slashes")
            )
            await _answer(refused, scope, receive, send)
            return
        try:
            await self._serve(scope, receive, send)
        except NodeError as error:
            answer = error_answer_for(scope, error, explained=not _is_transfer(scope))
            await _refuse(answer, scope, receive, send)
        except Exception:
            if send.status:
                raise
            _log.exception("request crashed: %s %s", scope.get("method", SOCKET), scope["path"])
            await _refuse(crash_answer(), scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        preflight = None
        if self._settings.anonymous_reads is not AnonymousReads.ALL:
            preflight = preflight_answer(scope)
        elif not is_own_host(scope, self._settings.public_url):
            raise Refused(
                "ForeignHost",
                "this node gives private datasets to everybody who reaches it, so it answers to "
                "its addresses and to the host of ODF_NODE_PUBLIC_URL only, not to other names",
            )
        if preflight is not None:
            await preflight(scope, receive, send)
            return
        # Before any branch: no route reads a body that has neither pace nor end.
        if scope.get("method", SOCKET) not in BODILESS:
            receive = Paced(receive, self._settings.client_idle_s)
        state = scope.setdefault("state", {})
        route, state["path"] = self._addresses.find(scope)
        if route is not None:
            scope["route"] = route
            if route.is_page:
                await route.serve(scope, receive, send)
                return
        state["actor"] = await self._authentication.actor(scope)
        if route is not None:
            await route.serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await _answer(not_found_answer(), scope, receive, send)
        else:
            await self._by_framework(scope, receive, send)

    async def _by_framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve HEAD as a GET whose body is dropped, because the framework has no HEAD."""
        if scope["method"] == "HEAD":
            scope["state"][HEADERS_ONLY] = True
            scope, send = {**scope, "method": "GET"}, _headless(send)
        await self._rest(scope, receive, send)


def is_plain(scope: Scope) -> bool:
    """Return whether the decoded path has the same segments as the path that was sent."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw:
        return True
    lowered = raw.lower()
    return not any(slash in lowered for slash in ENCODED_SLASHES)


def _is_transfer(scope: Scope) -> bool:
    """Return whether the transfer protocols prescribe the form of errors."""
    return scope["type"] == "websocket" or getattr(scope.get("route"), "is_transfer", False)


async def _refuse(answer: Response, scope: Scope, receive: Receive, send: Sending) -> None:
    if send.status:
        _log.error("answer broke off: %s", scope["path"])
        raise ConnectionAbortedError("the answer broke off")
    await _answer(answer, scope, receive, send)


async def _answer(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await answer(scope, receive, send)
        return
    await WebSocket(scope, receive, send).send_denial_response(answer)


def _headless(send: Send) -> Send:
    """Return a `send` that drops the body, for responses to HEAD."""

    async def only_start(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return only_start
