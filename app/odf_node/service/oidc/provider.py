"""The identity provider of a node: settings, what it says of itself, its keys, requests to it.

What it says is kept for minutes, so that a key that it withdrew counts no more soon after, without
a restart. A token of an unknown key, or with a wrong signature, makes us look at once, every few
seconds at most. Requests have a deadline and a limit of bytes, and a failure is remembered for a
moment, so that a provider that is away keeps few threads busy.
"""

from __future__ import annotations

import base64
import ipaddress
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

import msgspec
from pydantic import Field, field_validator

from odf_protocol.errors import NodeError, RemoteFailed
from odf_protocol.typed import decode_json
from odf_storage.runtime.environment import BaseSettings
from odf_storage.stores.ports.values import Role

ALGORITHMS = ("RS256", "ES256", "PS256", "EdDSA", "RS384", "RS512", "ES384", "ES512")
"""Signatures of tokens that are taken. None of them is by a shared secret."""
CURVES = {"EC": ("P-256", "P-384", "P-521"), "OKP": ("Ed25519", "Ed448"), "RSA": (None,)}
"""Kinds of keys that can be read. One of another kind would spoil the whole set."""
MOST_BYTES = 1024 * 1024
DESCRIPTION_S = 600.0
KEYS_S = 300.0
AGAIN_S = 5.0
"""Least seconds between two looks at the keys, and for which a failure is remembered."""
FORM = "application/x-www-form-urlencoded"


class OidcSettings(BaseSettings):
    """Read from `ODF_OIDC_…`."""

    PREFIX: ClassVar[str] = "ODF_OIDC_"

    issuer: str | None = Field(
        None,
        max_length=500,
        description="Address of the identity provider exactly as it names itself, with its slash "
        "at the end if it has one; none: nobody logs in by a provider.",
    )
    client_id: str = Field("odf-node", min_length=1, description="Our id at the provider.")
    client_secret: str | None = Field(
        None, min_length=1, repr=False, description="Our secret there; none: a public client."
    )
    name: str = Field(
        "your institution",
        min_length=1,
        max_length=60,
        description="What the pages call the provider.",
    )
    scopes: tuple[str, ...] = Field(
        ("openid", "profile", "email"),
        description="What the provider is asked for, as JSON; some refuse scopes that they do not "
        "know.",
    )
    name_claim: str = Field(
        "preferred_username", description="Claim after which a new account is named."
    )
    groups_claim: str = Field(
        "groups", description="Claim with the groups of a person, such as realm_access.roles."
    )
    login_groups: tuple[str, ...] = Field(
        (), description="Groups whose members may log in, as JSON; none: everybody may."
    )
    admin_groups: tuple[str, ...] = Field(
        (),
        description="Groups whose members are administrators, as JSON; others lose that right at "
        "their next login. None: logins change no rights.",
    )
    roles: dict[str, dict[str, Role]] = Field(
        {},
        description="Roles at datasets by group, as JSON, such as "
        '{"/curators": {"kamu/weather": "Editor"}}.',
    )
    makes_accounts: bool = Field(
        True, description="Whether whoever has no account yet gets one at the first login."
    )
    answer_s: float = Field(
        10.0, gt=0, le=120, description="Seconds for which a request to the provider may take."
    )
    leeway_s: int = Field(
        30, ge=0, le=300, description="Seconds by which its clock may differ from ours."
    )

    @field_validator("issuer")
    @classmethod
    def _safe(cls, issuer: str | None) -> str | None:
        if issuer is not None and not _is_safe(issuer):
            raise ValueError("must be an https address; http only on this machine")
        return issuer

    @field_validator("scopes")
    @classmethod
    def _asks_who_it_is(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError("must name openid")
        return scopes


def _is_safe(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and _is_here(str(parts.hostname)))
    )


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass
class _Kept:
    """What was fetched once, for so many seconds; and the last failure."""

    fetch: Callable[[], Any]
    keep_s: float
    now: Callable[[], float]
    value: Any = None
    at: float = float("-inf")
    failed: NodeError | None = None
    failed_at: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, *, newer: bool = False) -> Any:
        """Return it; with `newer` as of the last seconds. One thread at a time fetches it."""
        with self.lock:
            age = self.now() - self.at
            if age < (AGAIN_S if newer else self.keep_s):
                return self.value
            if self.failed is not None and self.now() - self.failed_at < AGAIN_S:
                raise self.failed.with_traceback(None)
            try:
                self.value = self.fetch()
            except NodeError as error:
                self.failed, self.failed_at = error, self.now()
                raise
            self.at, self.failed = self.now(), None
            return self.value


class Provider:
    """A provider as it says that it is: addresses and keys. Methods block: use a thread."""

    def __init__(
        self, settings: OidcSettings, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self._described = _Kept(self._describe, DESCRIPTION_S, now)
        self._keys = _Kept(self._fetch_keys, KEYS_S, now)

    @property
    def issuer(self) -> str:
        return str(self.settings.issuer)

    def unusable(self, why: str) -> RemoteFailed:
        """The provider does not answer, or says something else than it must."""
        name = self.settings.name
        return RemoteFailed(
            "ProviderUnusable",
            f"{name} {why}; try again in a moment, or sign in by a password or access token",
            provider=name,
        )

    def says(self, what: str) -> Any:
        """Return a value of the provider's description. Raises `ProviderUnusable`."""
        return self._described.get().get(what)

    def address(self, what: str) -> str:
        """Return one of its addresses. Raises `ProviderUnusable`: it has none, or none that is
        safe."""
        address = self.says(what)
        if not isinstance(address, str) or not _is_safe(address):
            raise self.unusable(f"names no {what.replace('_', ' ')} that is safe to use")
        return address

    def keys(self, *, newer: bool = False) -> list[dict[str, Any]]:
        """Return the keys that sign its tokens. Raises `ProviderUnusable`."""
        keys: list[dict[str, Any]] = self._keys.get(newer=newer)
        return keys

    def token(self, form: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer of the token endpoint.

        Raises:
            ProviderUnusable: also if it refuses the code or us.
        """
        settings, body, headers = self.settings, dict(form), {"content-type": FORM}
        methods = self.says("token_endpoint_auth_methods_supported")
        if settings.client_secret is None:
            body["client_id"] = settings.client_id
        elif isinstance(methods, list) and "client_secret_basic" not in methods:
            body |= {"client_id": settings.client_id, "client_secret": settings.client_secret}
        else:
            # quoted, as RFC 6749 (2.3.1) says
            pair = f"{quote(settings.client_id, '')}:{quote(settings.client_secret, '')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        _, raw = self._ask("POST", self.address("token_endpoint"), body, headers)
        return self._object(raw)

    def userinfo(self, access_token: str) -> tuple[str, bytes]:
        """Return type and bytes of what it says of a person."""
        headers = {"authorization": f"Bearer {access_token}"}
        return self._ask("GET", self.address("userinfo_endpoint"), None, headers)

    def _describe(self) -> dict[str, Any]:
        url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = self._object(self._ask("GET", url)[1])
        if found.get("issuer") != self.issuer:
            raise self.unusable(
                f"calls itself {str(found.get('issuer'))[:200]!r}, and ODF_OIDC_ISSUER is "
                f"{self.issuer!r}: an administrator has to make them equal, to the last slash"
            )
        return found

    def _fetch_keys(self) -> list[dict[str, Any]]:
        found = self._object(self._ask("GET", self.address("jwks_uri"))[1]).get("keys")
        keys = [key for key in found if _is_readable(key)] if isinstance(found, list) else []
        if not keys:
            raise self.unusable("names no key that its tokens could be checked by")
        return keys

    def _object(self, raw: bytes) -> dict[str, Any]:
        try:
            return decode_json(raw, dict[str, Any])
        except (msgspec.DecodeError, UnicodeError):
            raise self.unusable("answered with something else than a JSON object") from None

    def _ask(
        self,
        method: str,
        url: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[str, bytes]:
        """Return type and bytes of an answer. Raises `ProviderUnusable`."""
        from ...client.nodes.http import open_http, read_bounded
        from ...client.nodes.later import httpx  # slow to load, and few nodes have a provider
        from ...client.nodes.limits import ClientLimits

        most = self.settings.answer_s
        limits = ClientLimits(connect_s=most, answer_s=most, idle_s=most, whole_s=most)
        given = {"accept": "application/json", **(headers or {})}
        try:
            with open_http(limits) as http:
                asked = http.build_request(method, url, data=form, headers=given)
                with closing(http.send(asked, stream=True, follow_redirects=False)) as answer:
                    raw = read_bounded(answer, MOST_BYTES, self.settings.name)
        except (httpx.HTTPError, httpx.InvalidURL, NodeError) as error:
            raise self.unusable(f"does not answer ({type(error).__name__})") from None
        if not answer.is_success:
            raise self.unusable(f"refused with status {answer.status_code}{_code_in(raw)}")
        return answer.headers.get("content-type", ""), raw


def _is_readable(key: Any) -> bool:
    if not isinstance(key, dict) or key.get("use") == "enc":
        return False
    return key.get("crv") in CURVES.get(str(key.get("kty")), ())


def _code_in(raw: bytes) -> str:
    """Return the error code of an answer, for the person. Its description may say anything."""
    try:
        code = decode_json(raw, dict[str, Any]).get("error")
    except (msgspec.DecodeError, UnicodeError):
        return ""
    is_code = isinstance(code, str) and code.isascii() and code.replace("_", "").isalnum()
    return f" ({str(code)[:60]})" if is_code else ""
