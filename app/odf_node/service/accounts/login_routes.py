"""Routes of login: by password, and for a command line by a page in the browser.

The page on which a user approves the login of a command line: plain HTML without scripts or
external resources.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from html import escape
from string import Template
from typing import Annotated, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec
from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import HTMLResponse, Response

from odf_protocol.errors import BadInput
from odf_protocol.instant import NANOS
from odf_protocol.typed import decode_json
from odf_storage.stores.ports.values import Account, DeviceLogin

from ..auth.dataset_access import Callers
from ..auth.passwords import TooManyAttempts
from ..auth.visitors import refuse_foreign, visitor
from ..http.answers import JsonAnswer
from ..http.bodies import small_body, small_form
from ..http.deps import BaseDep, base_of, part_of, wired
from ..settings import Settings
from ..system.face import Face
from . import login as usecase
from .login import (
    CredentialsRejected,
    Devices,
    LoginWays,
    Passwords,
    Sessions,
    TooManyCodes,
    device_grant_refused,
)

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}

_FRAME = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in – $name</title>
<style>
:root { color-scheme: light dark; --accent: #2563a8 }
@media (prefers-color-scheme: dark) { :root { --accent: #7db3ec } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 24rem; margin: 4rem auto; padding: 0 1rem }
a { color: var(--accent) }
header { font-weight: 700 }
label, button { display: block; margin-top: 1rem }
input { display: block; width: 100%; box-sizing: border-box; font: inherit; padding: .4rem }
button { font: inherit; padding: .4rem 1rem }
input.tick { display: inline; width: auto }
dd { margin: 0 0 .5rem 1rem }
.problem { color: #b42318 }
@media (prefers-color-scheme: dark) { .problem { color: #ff9b8e } }
$style</style>
</head>
<body>
<header>$name</header>
<main>
<h1>$title</h1>
$body
</main>
</body>
</html>
""")
_CODE = Template("""<p>A command line that wants to act in your name shows you a code. Type it
here only if you started it yourself, a moment ago.</p>
$problem
$ways
<form method="post" action="login" autocomplete="off">
<label>Code <input name="userCode" placeholder="XXXX-XXXX" maxlength="20" required autofocus
autocapitalize="characters" spellcheck="false"></label>
<button name="decision" value="look">Go on</button>
</form>""")
_DECISION = Template("""<p>A program asks to act in your name. Let it in only if you started it
yourself.</p>
<dl>
<dt>Program (as it calls itself)</dt><dd>$client</dd>
<dt>Address</dt><dd>$address, which is $whose</dd>
<dt>Waiting for</dt><dd>$age</dd>
</dl>
$problem
<form method="post" action="login" autocomplete="on">
<input type="hidden" name="$name" value="$code">
$confirm
$who
<button name="decision" value="approve">Let it in</button>
<button name="decision" value="deny" formnovalidate>Send it away</button>
</form>""")
_ASKED = """<label>Account
<input name="login" autocomplete="username" required autofocus></label>
<label>Password
<input name="password" type="password" autocomplete="current-password" required></label>"""
_SIGNED_IN = Template("<p>It will act as <b>$account</b>, as whom you are signed in here.</p>")
_WAY = Template("""<p><a href="$path">Sign in by $label</a> first, if you have no password.</p>""")
_CONFIRM = """<label><input class="tick" type="checkbox" name="begun" value="yes" required>
I started this login myself; nobody sent me the link to this page.</label>"""
NOT_CONFIRMED = (
    "Tick that you started this login yourself. If somebody sent you the link, send it away: who "
    "sent it would act in your name."
)
UNKNOWN_CODE = "No command line waits with this code. Look at what it shows, or start it again."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginQuestion:
    """Who waits for the decision of a user, and by which of the two codes the user came."""

    client: str
    address: str
    is_here: bool
    """Whether the page is looked at from the same address."""
    age_s: int
    secret: str
    typed: str
    who: str
    """HTML that says, or asks, who lets it in."""


class LoginPage(NamedTuple):
    """What a page of a login says, as HTML."""

    title: str
    body: str
    status: int


def code_page(*, ways: str = "", problem: str = "", status: int = 200) -> LoginPage:
    """Return the form for the short code, behind links to ways to sign in."""
    return LoginPage("Log in", _CODE.substitute(ways=ways, problem=_problem(problem)), status)


def decision_page(question: LoginQuestion, *, problem: str = "", status: int = 200) -> LoginPage:
    """Return the page that says who waits, with the form for the decision."""
    name = "userCode" if question.typed else "deviceCode"
    body = _DECISION.substitute(
        client=escape(question.client),
        address=escape(question.address),
        whose="yours, too" if question.is_here else "another than yours",
        age=_age(question.age_s),
        problem=_problem(problem),
        name=name,
        code=escape(question.typed or question.secret, quote=True),
        confirm="" if question.typed else _CONFIRM,
        who=question.who,
    )
    return LoginPage("Log in", body, status)


def approved() -> LoginPage:
    return _end("Done", "The command line is logged in. You can close this page.")


def denied() -> LoginPage:
    return _end("Sent away", "The command line was not let in. You can close this page.")


def over() -> LoginPage:
    return _end(
        "No login waits here",
        "The code is wrong, was used already, or has expired. Start the login again in the command "
        "line, and open the address that it prints.",
        404,
    )


def _end(title: str, text: str, status: int = 200) -> LoginPage:
    return LoginPage(title, f"<p>{escape(text)}</p>", status)


def _age(seconds: int) -> str:
    count, unit = (seconds // 60, "minute") if seconds >= 120 else (seconds, "second")
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _problem(text: str) -> str:
    return f'<p class="problem" role="alert">{escape(text)}</p>' if text else ""


def _sent(page: LoginPage, face: Face) -> Response:
    """Return the page with the name and the colours of the node: who logs in looks for them."""
    text = _FRAME.substitute(
        title=page.title,
        body=page.body,
        name=escape(face.name),
        style=face.style.decode(),
    )
    return HTMLResponse(text, page.status, HEADERS)


MAX_BODY_BYTES = 16 * 1024
NO_STORE = {"cache-control": "no-store"}
PasswordsDep = Annotated[Passwords, Depends(wired(Passwords))]
SessionsDep = Annotated[Sessions, Depends(wired(Sessions))]
DevicesDep = Annotated[Devices, Depends(wired(Devices))]
FaceDep = Annotated[Face, Depends(wired(Face))]

router = APIRouter(tags=["login"])


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
        raise BadInput(
            "MalformedLogin", "the body has to be JSON with loginMethod and loginCredentialsJson"
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
        raise device_grant_refused("invalid_request")
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
        raise device_grant_refused("unsupported_grant_type")
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
    face: FaceDep,
    code: Annotated[str, Query(alias="deviceCode", max_length=200)] = "",
) -> Response:
    """Without a code, a form for the short code. Clients that know no such code open the page with
    their secret one; whoever decides then has to say that they began the login."""
    if not code:
        return _sent(code_page(ways=_ways(request, code)), face)
    waiting = usecase.find_waiting(devices, code)
    if waiting is None:
        return _sent(over(), face)
    return _sent(decision_page(_question(devices, request, waiting, code)), face)


@router.post("/v/login", summary="What the user decided on that page")
async def decide(
    request: Request, passwords: PasswordsDep, devices: DevicesDep, face: FaceDep
) -> Response:
    form = await small_form(request, MAX_BODY_BYTES)
    limiter = request.app.state.passwords
    work = partial(_decided, passwords, devices, form, request)
    return _sent(await to_thread.run_sync(work, limiter=limiter), face)


def _decided(
    passwords: Passwords, devices: Devices, form: dict[str, str], request: Request
) -> LoginPage:
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
            return _approved(passwords, devices, form, waiting, question, request)
    return decision_page(question)


def _approved(
    passwords: Passwords,
    devices: Devices,
    form: dict[str, str],
    waiting: DeviceLogin,
    question: LoginQuestion,
    request: Request,
) -> LoginPage:
    account = None if "login" in form else _signed_in(request)
    if account is not None:
        refuse_foreign(request, part_of(request, Settings).public_url)
    try:
        given = (form.get("login", ""), form.get("password", ""))
        account = account or usecase.check_password(passwords, *given, _address(request))
    except CredentialsRejected as refused:
        return decision_page(question, problem=refused.message, status=401)
    except TooManyAttempts as refused:
        return decision_page(question, problem=refused.message, status=429)
    return approved() if usecase.decide_device(devices, waiting, account) else over()


def _question(
    devices: Devices, request: Request, waiting: DeviceLogin, secret: str, typed: str = ""
) -> LoginQuestion:
    seconds = max(0, devices.clock().ns - waiting.created_at.ns) // NANOS
    return LoginQuestion(
        client=waiting.client or "a program",
        address=waiting.address or "an unknown address",
        is_here=waiting.address == _address(request),
        age_s=seconds,
        secret="" if typed else secret,
        typed=typed,
        who=_who(request, "" if typed else secret),
    )


def _signed_in(request: Request) -> Account | None:
    """Return the account of the browser, if its user logged in; access tokens do not count."""
    actor = visitor(part_of(request, Callers), request, allow_anonymous=True)
    return actor.account if actor.has_session else None


def _who(request: Request, secret: str) -> str:
    account = _signed_in(request)
    if account is not None:
        return _SIGNED_IN.substitute(account=escape(account.name))
    return _ways(request, secret) + _ASKED


def _ways(request: Request, secret: str) -> str:
    """Return links to other ways to sign in, which lead back to this page."""
    if _signed_in(request) is not None:
        return ""
    back = quote(f"/v/login?deviceCode={quote(secret)}" if secret else "/v/login")
    root = urlsplit(base_of(request)).path.rstrip("/")
    return "".join(
        _WAY.substitute(path=f"{root}{way.path}?next={back}", label=escape(way.label))
        for way in part_of(request, LoginWays).ways
    )


def _address(request: Request) -> str:
    """Return the address that sends the password: the peer of the connection. Headers have no
    influence."""
    return request.client.host if request.client else ""
