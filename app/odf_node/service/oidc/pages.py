"""Addresses of the login by a provider: its begin, the way back, and logouts at the provider.

What is remembered between begin and way back lies sealed in a cookie of its own for each login, so
two tabs do not disturb each other, and any service of the node can end what another one began.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from odf_protocol.errors import BadInput, Damaged, LimitExceeded, NodeError
from odf_protocol.instant import NANOS, Instant
from odf_protocol.typed import decode_json
from odf_storage.stores.ports.values import Variable
from odf_storage.stores.registers.accounts.sealing import SecretKeys

from ..accounts.login import LoginWay, Sessions, begin_session
from ..auth.actors import ANONYMOUS
from ..auth.visitors import local_path, sign_in
from ..errors import status_of
from ..http.addresses import Route as Address
from ..http.answers import JsonAnswer
from ..http.bodies import small_form
from ..http.deps import base_of, part_of
from ..pages.frame import views
from ..pages.frame.render import page
from ..pages.frame.views import Views
from ..settings import Settings
from .people import People
from .provider import Provider
from .tokens import MOST_CHARS, read_logout, read_person, token_not_taken

FOLDER = "/v/oidc"
BEGIN, BACK, LOGOUT = f"{FOLDER}/begin", f"{FOLDER}/callback", f"{FOLDER}/logout"
THREADS = 8
"""Threads that may wait for the provider; others of the service are never used for that."""
MOST_WAITING = 100
LOGIN_S = 600
"""Seconds within which a login that was begun has to come back."""
STATE_CHARS = 16
COOKIE, HINT = "odf_login_", "odf_id_token"
HINT_CHARS = 3_500
"""Longest id_token that is kept for the logout; browsers take cookies of 4 KB."""
_USE = b"odf-node login by a provider"
_log = logging.getLogger("odf.node")


class Begun(msgspec.Struct, frozen=True):
    """A login that was begun, as its cookie holds it."""

    state: str
    nonce: str
    verifier: str
    target: str
    ends_s: int


@dataclass(frozen=True)
class Desk:
    """What the addresses need: the provider, the accounts, and keys that seal what was begun."""

    provider: Provider
    people: People
    keys: SecretKeys
    threads: CapacityLimiter

    def sealed(self, begun: Begun, at: Instant) -> str:
        text = msgspec.json.encode(begun).decode()
        kept = self.keys.sealed("oidc", "login", text, at=at)
        return f"{kept.key_id}.{base64.urlsafe_b64encode(kept.value).decode()}"

    def opened(self, text: str, now: Instant) -> Begun | None:
        """Return the login of a cookie; None if it is none of ours, or is over."""
        key, _, sealed = text.partition(".")
        try:
            value = base64.urlsafe_b64decode(sealed)
            kept = Variable(name="login", is_secret=True, value=value, updated_at=now, key_id=key)
            begun = decode_json(self.keys.opened("oidc", kept), Begun)
        except (binascii.Error, ValueError, Damaged, msgspec.DecodeError):
            return None
        return begun if begun.ends_s * NANOS > now.ns else None


def desk_of(provider: Provider, people: People, session_secrets: Iterable[bytes]) -> Desk:
    """Return the desk, whose keys are derived from what all services of a node have."""
    secrets = (hmac.digest(one, _USE, hashlib.sha256) for one in session_secrets)
    keys = {hashlib.sha3_256(key).hexdigest()[:8]: key for key in secrets}
    return Desk(provider, people, SecretKeys(keys), CapacityLimiter(THREADS))


def login_addresses(
    settings: Settings, given: Views, sessions: Sessions, desk: Desk
) -> list[Address]:
    """Return the addresses, served by an application of their own."""
    made = Starlette(
        routes=[
            Route(BEGIN, _page(_begin), methods=["GET"]),
            Route(BACK, _page(_come_back), methods=["GET"]),
            Route(LOGOUT, _log_out, methods=["POST"]),
        ]
    )
    made.state.parts = {type(part): part for part in (settings, given, sessions, desk)}
    return [Address(path, made, is_page=True) for path in (BEGIN, BACK, LOGOUT)]


def login_way(provider: Provider) -> LoginWay:
    """Return the link for the page to sign in."""
    return LoginWay(provider.settings.name, BEGIN, partial(_leave, provider))


Work = Callable[[Request, Desk], Response]


def _page(work: Work) -> Callable[[Request], Any]:
    """Return an endpoint whose work waits for the provider in a thread of its own."""

    async def made(request: Request) -> Response:
        try:
            return await _in_thread(work, request)
        except NodeError as error:
            _log.warning("a login by the provider failed: %s", error.message)
            # a page of its own, whose link to sign in leads back to none of these addresses
            around = views.frame(part_of(request, Views), ANONYMOUS, "/")
            status = int(status_of(error))
            told = {"status": status, "message": error.message, "renamed": None}
            return page("problem", {**around, **told}, status)

    return made


async def _in_thread(work: Callable[..., Response], request: Request, *more: object) -> Response:
    desk = part_of(request, Desk)
    if desk.threads.statistics().tasks_waiting >= MOST_WAITING:
        raise LimitExceeded(
            "ProviderBusy", "too many logins wait for the provider; try again in a moment"
        )
    return await to_thread.run_sync(work, request, desk, *more, limiter=desk.threads)


def _begin(request: Request, desk: Desk) -> Response:
    """Send the browser to the provider."""
    from authlib.common.security import generate_token
    from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
    from authlib.oauth2.rfc7636 import create_s256_code_challenge

    settings, now = desk.provider.settings, desk.people.clock()
    begun = Begun(
        state=generate_token(2 * STATE_CHARS),
        nonce=generate_token(32),
        verifier=generate_token(64),
        target=local_path(request.query_params.get("next", "/")),
        ends_s=now.ns // NANOS + LOGIN_S,
    )
    url = prepare_grant_uri(
        desk.provider.address("authorization_endpoint"),
        settings.client_id,
        "code",
        redirect_uri=_back_at(request),
        scope=" ".join(settings.scopes),
        state=begun.state,
        nonce=begun.nonce,
        code_challenge=create_s256_code_challenge(begun.verifier),
        code_challenge_method="S256",
    )
    answer = RedirectResponse(url, 303, headers={"cache-control": "no-store"})
    _set(answer, request, _cookie_of(begun.state), desk.sealed(begun, now), LOGIN_S)
    return answer


def _come_back(request: Request, desk: Desk) -> Response:
    """Sign in whoever comes back from the provider with a code."""
    given = request.query_params
    name = _cookie_of(given.get("state", ""))
    begun = desk.opened(request.cookies.get(name, ""), desk.people.clock())
    if begun is None or not hmac.compare_digest(
        begun.state.encode(), given.get("state", "").encode()
    ):
        raise BadInput(
            "LoginNotBegun",
            "this login was not begun in this browser, was ended before, or took too long; begin "
            "it again on the page to sign in",
        )
    _refuse_others(desk.provider, given.get("iss"))
    if "code" not in given:
        raise token_not_taken(f"the provider said {_word(given.get('error'))}")
    form = {
        "grant_type": "authorization_code",
        "code": given["code"],
        "redirect_uri": _back_at(request),
        "code_verifier": begun.verifier,
    }
    token, sessions = desk.provider.token(form), part_of(request, Sessions)
    now = desk.people.clock()
    person = read_person(desk.provider, token, begun.nonce, now)
    account = desk.people.log_in(person, Instant(now.ns + sessions.ttl_s * NANOS))
    frame = views.frame(part_of(request, Views), ANONYMOUS, FOLDER)
    answer = page("going_on", {**frame, "target": begun.target, "name": account.name})
    sign_in(answer, begin_session(sessions, account).token, sessions.ttl_s, base_of(request))
    answer.delete_cookie(name, path=_path(request))
    if len(person.id_token) <= HINT_CHARS:
        _set(answer, request, HINT, person.id_token, sessions.ttl_s)
    return answer


def _refuse_others(provider: Provider, issuer: str | None) -> None:
    """Refuse an answer of another issuer (RFC 9207)."""
    is_said = provider.says("authorization_response_iss_parameter_supported") is True
    if issuer != provider.issuer and (is_said or issuer is not None):
        raise token_not_taken("another issuer answered than the one that was asked")


async def _log_out(request: Request) -> Response:
    """Back-channel logout: the provider says that sessions of a person ended."""
    headers = {"cache-control": "no-store"}
    try:
        form = await small_form(request, MOST_CHARS)
        return await _in_thread(_logged_out, request, form.get("logout_token", ""))
    except NodeError as error:
        _log.warning("a logout by the provider was refused: %s", error.message)
        told = {"error": "invalid_request", "error_description": error.message}
        return JsonAnswer(told, 400, headers=headers)


def _logged_out(_: Request, desk: Desk, token: str) -> Response:
    desk.people.end_sessions(read_logout(desk.provider, token, desk.people.clock()))
    return Response(status_code=200, headers={"cache-control": "no-store"})


def _leave(provider: Provider, request: Request, answer: Response) -> str | None:
    """Return the provider's address for signing out there, for whoever signed in by it."""
    hint = request.cookies.get(HINT)
    if hint is None:
        return None
    answer.delete_cookie(HINT, path=_path(request))
    try:
        if provider.says("end_session_endpoint") is None:
            return None
        url = provider.address("end_session_endpoint")
    except NodeError:
        return None  # signing out here works without it
    more = {
        "id_token_hint": hint,
        "client_id": provider.settings.client_id,
        "post_logout_redirect_uri": base_of(request),
    }
    return f"{url}{'&' if '?' in url else '?'}{urlencode(more)}"


def _back_at(request: Request) -> str:
    return f"{base_of(request).rstrip('/')}{BACK}"


def _cookie_of(state: str) -> str:
    """Return the name of the cookie of a login, which has nothing strange of the address."""
    return COOKIE + hashlib.sha3_256(state.encode()).hexdigest()[:STATE_CHARS]


def _path(request: Request) -> str:
    return urlsplit(base_of(request)).path.rstrip("/") + "/v"


def _set(answer: Response, request: Request, name: str, value: str, lasts_s: int) -> None:
    """Set a cookie that comes along when the provider sends the browser back."""
    is_secure = urlsplit(base_of(request)).scheme == "https"
    answer.set_cookie(
        name,
        value,
        max_age=lasts_s,
        path=_path(request),
        httponly=True,
        samesite="lax",
        secure=is_secure,
    )


def _word(error: str | None) -> str:
    """Return an error code of the provider; anything else may be words of a stranger."""
    is_code = error is not None and error.isascii() and error.replace("_", "").isalnum()
    return str(error)[:60] if is_code else "nothing that we know"
