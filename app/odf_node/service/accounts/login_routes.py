"""Routes of login: by password, and for a command line by a page in the browser."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.instant import NANOS
from odf_protocol.typed import decode_json
from odf_storage.stores.ports.values import DeviceLogin

from ..auth.throttle import TooManyAttempts
from ..http.answers import JsonAnswer
from ..http.bodies import small_body, small_form
from ..http.deps import BaseDep, wired
from . import login as usecase
from .login import (
    CredentialsRejected,
    DeviceGrantRefused,
    Devices,
    Passwords,
    Sessions,
    TooManyCodes,
)
from .login_page import (
    NOT_CONFIRMED,
    UNKNOWN_CODE,
    Question,
    approved,
    code_page,
    decision_page,
    denied,
    over,
)

MAX_BODY_BYTES = 16 * 1024
NO_STORE = {"cache-control": "no-store"}
PasswordsDep = Annotated[Passwords, Depends(wired(Passwords))]
SessionsDep = Annotated[Sessions, Depends(wired(Sessions))]
DevicesDep = Annotated[Devices, Depends(wired(Devices))]

router = APIRouter(tags=["login"])


class MalformedLogin(BadInput):
    """The body is not a login request."""


class LoginBody(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a login request. The credentials are a JSON document inside a text."""

    login_method: str
    login_credentials_json: str


@router.post("/platform/login", summary="A session token for credentials")
async def login(request: Request, passwords: PasswordsDep, sessions: SessionsDep) -> Response:
    """The body is
    `{"loginMethod":"password","loginCredentialsJson":"{\\"login\\":…,\\"password\\":…}"}`."""
    raw = await small_body(request, MAX_BODY_BYTES)
    try:
        given = decode_json(raw, LoginBody)
    except (msgspec.DecodeError, UnicodeError):
        raise MalformedLogin(
            "the body has to be JSON with loginMethod and loginCredentialsJson"
        ) from None
    credentials = (given.login_method, given.login_credentials_json)
    limiter = request.app.state.passwords
    grant = await to_thread.run_sync(
        usecase.log_in,
        passwords,
        sessions,
        *credentials,
        _address(request),
        limiter=limiter,
    )
    return JsonAnswer({"accessToken": grant.token}, headers=NO_STORE)


@router.post("/platform/token/device/authorization", summary="Begin the login of a device")
async def authorize_device(request: Request, devices: DevicesDep, base: BaseDep) -> Response:
    """Device authorization request of RFC 8628. The body is form-encoded."""
    client = (await small_form(request, MAX_BODY_BYTES)).get("client_id")
    if not client:
        raise DeviceGrantRefused("invalid_request")
    codes = await to_thread.run_sync(usecase.await_device, devices, _address(request), client)
    answer = {
        "device_code": codes.device,
        "user_code": codes.user,
        "verification_uri": f"{base}v/login",
        "verification_uri_complete": None,
        "expires_in": devices.ttl_s,
        "interval": usecase.DEVICE_INTERVAL_S,
    }
    return JsonAnswer(answer, headers=NO_STORE)


@router.post("/platform/token/device", summary="The token of a device, once approved")
async def device_token(request: Request, devices: DevicesDep) -> Response:
    """Device access token request of RFC 8628. The `message` of an error is its error code."""
    form = await small_form(request, MAX_BODY_BYTES)
    if form.get("grant_type") != usecase.DEVICE_GRANT:
        raise DeviceGrantRefused("unsupported_grant_type")
    grant = await to_thread.run_sync(usecase.poll_device, devices, form.get("device_code", ""))
    answer = {
        "access_token": grant.token,
        "token_type": "Bearer",
        "expires_in": grant.expires_in_s,
        "refresh_token": None,
        "score": None,
    }
    return JsonAnswer(answer, headers=NO_STORE)


@router.get("/assets/runtime-config.json", summary="Where the API of this node is")
async def runtime_config(base: BaseDep) -> Response:
    """Return the URL of the API. Command lines read it when a user gave them that of a web page."""
    return JsonAnswer({"apiServerHttpUrl": base.rstrip("/")})


@router.get("/v/login", summary="Page where a user lets a command line in")
def login_page(
    request: Request,
    devices: DevicesDep,
    code: Annotated[str, Query(alias="deviceCode", max_length=200)] = "",
) -> Response:
    """Without a code, a form for the short code. Clients that know no such code open the page with
    their secret one; whoever decides then has to say that they began the login."""
    if not code:
        return code_page()
    waiting = usecase.find_waiting(devices, code)
    return over() if waiting is None else decision_page(_question(devices, request, waiting, code))


@router.post("/v/login", summary="What the user decided on that page")
async def decide(request: Request, passwords: PasswordsDep, devices: DevicesDep) -> Response:
    form = await small_form(request, MAX_BODY_BYTES)
    limiter = request.app.state.passwords
    work = partial(_decided, passwords, devices, form, request)
    return await to_thread.run_sync(work, limiter=limiter)


def _decided(
    passwords: Passwords, devices: Devices, form: dict[str, str], request: Request
) -> Response:
    secret, typed, address = (
        form.get("deviceCode", "")[:200],
        form.get("userCode", "")[:200],
        _address(request),
    )
    try:
        waiting = (
            usecase.find_typed(devices, typed, address)
            if typed
            else usecase.find_waiting(devices, secret)
        )
    except TooManyCodes as refused:
        return code_page(problem=refused.message, status=429)
    if waiting is None:
        return code_page(problem=UNKNOWN_CODE, status=404) if typed else over()
    question = _question(devices, request, waiting, secret, typed)
    match form.get("decision"):
        case "deny":
            usecase.decide_device(devices, waiting, None)
            return denied()
        case "approve" if secret and not typed and form.get("begun") != "yes":
            return decision_page(question, problem=NOT_CONFIRMED, status=400)
        case "approve":
            return _approved(passwords, devices, form, waiting, question, address)
    return decision_page(question)


def _approved(
    passwords: Passwords,
    devices: Devices,
    form: dict[str, str],
    waiting: DeviceLogin,
    question: Question,
    address: str,
) -> Response:
    try:
        given = (form.get("login", ""), form.get("password", ""))
        account = usecase.check_password(passwords, *given, address)
    except CredentialsRejected as refused:
        return decision_page(question, problem=refused.message, status=401)
    except TooManyAttempts as refused:
        return decision_page(question, problem=refused.message, status=429)
    return approved() if usecase.decide_device(devices, waiting, account) else over()


def _question(
    devices: Devices, request: Request, waiting: DeviceLogin, secret: str, typed: str = ""
) -> Question:
    seconds = max(0, devices.clock().ns - waiting.created_at.ns) // NANOS
    return Question(
        client=waiting.client or "a program",
        address=waiting.address or "an unknown address",
        is_here=waiting.address == _address(request),
        age_s=seconds,
        secret="" if typed else secret,
        typed=typed,
    )


def _address(request: Request) -> str:
    """Return the address that sends the password: the peer of the connection. Headers have no
    influence."""
    return request.client.host if request.client else ""
