"""Log in by a page in the browser: the client's side of the device flow of RFC 8628.

A redirect by the node is an error, as for every POST.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

from odf_protocol.errors import Refused

from ..nodes.http import TransferFailed
from ..nodes.limits import one_line
from ..nodes.node_api import NodeApi, RequestRefused

CLIENT_ID = "odf-node"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SLOWER_S = 5
LONGEST_PAUSE_S = 60
LONGEST_WAIT_S = 3600
Pause = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class WaitingLogin:
    """A login that waits for its user: the address of the page, and how long it waits."""

    address: str
    code: str
    """The code that the user types on the page; empty if the address has one."""
    device_code: str = field(repr=False)
    expires_in_s: int
    interval_s: int


@dataclass(frozen=True, slots=True)
class DeviceSession:
    """The result of a login."""

    token: str = field(repr=False)
    expires_in_s: int


def begin_login(api: NodeApi) -> WaitingLogin:
    """Begin a login. Raises `TransferFailed`: no such login there, or an invalid response."""
    try:
        said = api.ask_by_form("platform/token/device/authorization", {"client_id": CLIENT_ID})
    except RequestRefused as refused:
        if refused.facts.get("status") in (405, 501):
            raise TransferFailed("this node has no login by a page") from refused
        raise
    device_code = _text(said, "device_code")
    user_code, page = said.get("user_code"), _text(said, "verification_uri")
    if not user_code:  # the page learns from its address who waits
        page = str(
            said.get("verification_uri_complete") or f"{page}?deviceCode={quote(device_code)}"
        )
    if not page.startswith(("http://", "https://")):
        raise TransferFailed(f"the node names no page to log in on, but {one_line(page)}")
    return WaitingLogin(
        address=one_line(page, 2000),
        code=one_line(str(user_code or "")),
        device_code=device_code,
        expires_in_s=min(_seconds(said, "expires_in"), LONGEST_WAIT_S),
        interval_s=min(_seconds(said, "interval"), LONGEST_PAUSE_S),
    )


def await_session(api: NodeApi, waiting: WaitingLogin, pause: Pause = time.sleep) -> DeviceSession:
    """Poll the node until the user has decided.

    Raises:
        LoginDenied, LoginTooLate, TransferFailed.
    """
    form = {"client_id": CLIENT_ID, "device_code": waiting.device_code, "grant_type": GRANT}
    interval, waited = waiting.interval_s, 0
    while waited < waiting.expires_in_s:
        pause(interval)
        waited += interval
        try:
            said = api.ask_by_form("platform/token/device", form)
        except RequestRefused as refused:
            match refused.message:
                case "authorization_pending":
                    continue
                case "slow_down":
                    interval = min(interval + SLOWER_S, LONGEST_PAUSE_S)
                    continue
                case "access_denied":
                    raise Refused("LoginDenied", "the login was denied on the page") from None
                case "expired_token" | "invalid_grant":
                    break
            raise
        return DeviceSession(_text(said, "access_token"), _seconds(said, "expires_in"))
    raise Refused("LoginTooLate", "nobody decided on the page in time; log in again")


def _text(said: dict[str, object], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str) or not value or not value.isprintable():
        raise TransferFailed(f"the node answers a login without {name}")
    return value


def _seconds(said: dict[str, object], name: str) -> int:
    value = said.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TransferFailed(f"the node answers a login without {name}")
    return value
