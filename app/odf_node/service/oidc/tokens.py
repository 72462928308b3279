"""Tokens of an identity provider: who logged in, and whose sessions end.

The library of the standard does the signatures and most claims. What it leaves open is checked
here: the algorithm, issuer and audience by our settings, and whether there is an id_token at all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from odf_protocol.errors import Refused
from odf_protocol.instant import NANOS, Instant
from odf_protocol.typed import decode_json
from odf_storage.stores.registers.accounts.providers import SUBJECT_CHARS

from .provider import ALGORITHMS, Provider

LOGOUT = "http://schemas.openid.net/event/backchannel-logout"
LOGOUT_AGE_S = 150
"""Oldest logout token that is taken, in seconds; providers let them hold for two minutes."""
MOST_GROUPS = 10_000
MOST_CHARS = 65_536
JWT = "application/jwt"
_log = logging.getLogger("odf.node")


def token_not_taken(why: str) -> Refused:
    """A token that is said to be of the provider is none that we may take."""
    return Refused("ProviderTokenNotTaken", f"the login was not taken: {why}")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who logged in at the provider."""

    subject: str
    name: str | None
    groups: frozenset[str] | None
    """None: the provider does not say."""
    sid: str | None
    """The session at the provider."""
    id_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class EndedLogin:
    """A logout at the provider: of a session, of all of a person, or both."""

    subject: str | None
    sid: str | None
    number: str
    """Different for each logout."""


def read_person(provider: Provider, answer: Mapping[str, Any], nonce: str, now: Instant) -> Person:
    """Return who logged in, by the answer of the token endpoint.

    Raises:
        ProviderTokenNotTaken, ProviderUnusable.
    """
    id_token, access_token = answer.get("id_token"), answer.get("access_token")
    if not isinstance(id_token, str) or not isinstance(access_token, str):
        raise token_not_taken("the provider sent no id_token; is the scope openid allowed there?")
    claims = _checked(provider, id_token, now, nonce=nonce, access_token=access_token)
    settings, more = provider.settings, {}
    if not {settings.groups_claim, settings.name_claim} <= claims.keys():
        more = _userinfo(provider, access_token, claims, now)
    told = {**more, **claims}
    name = told.get(settings.name_claim)
    return Person(
        subject=claims["sub"],
        name=name if isinstance(name, str) else None,
        groups=_groups(told, settings.groups_claim),
        sid=_short(claims.get("sid")),
        id_token=id_token,
    )


def read_logout(provider: Provider, text: str, now: Instant) -> EndedLogin:
    """Return whose sessions end, by a logout token.

    Raises:
        ProviderTokenNotTaken, ProviderUnusable.
    """
    claims = _checked(provider, text, now, essential=("iss", "aud", "iat", "jti"))
    events, subject, sid = claims.get("events"), claims.get("sub"), claims.get("sid")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT), dict):
        raise token_not_taken("it says of no event that it is a logout")
    if "nonce" in claims:
        raise token_not_taken("a logout has no nonce")
    if claims["iat"] * NANOS < now.ns - LOGOUT_AGE_S * NANOS:
        raise token_not_taken("the logout is too old")
    ended = EndedLogin(_short(subject), _short(sid), str(claims["jti"])[:SUBJECT_CHARS])
    if ended.subject is None and ended.sid is None:
        raise token_not_taken("the logout names neither sub nor sid")
    return ended


def _checked(
    provider: Provider,
    text: str,
    now: Instant,
    *,
    nonce: str | None = None,
    access_token: str | None = None,
    essential: tuple[str, ...] = ("iss", "sub", "aud", "exp", "iat"),
) -> dict[str, Any]:
    """Return the claims of a token that the provider signed for us."""
    from authlib.oidc.core import CodeIDToken
    from joserfc.errors import JoseError

    client = provider.settings.client_id
    options: dict[str, Any] = {name: {"essential": True} for name in essential}
    options["iss"]["value"], options["aud"]["value"] = provider.issuer, client
    params = {"nonce": nonce, "client_id": client, "access_token": access_token}
    try:
        token = _decoded(provider, text)
        claims = CodeIDToken(token.claims, token.header, options, params)
        claims.ESSENTIAL_CLAIMS = list(essential)
        claims.validate(now.ns // NANOS, provider.settings.leeway_s)
    except (JoseError, ValueError, TypeError) as error:
        raise token_not_taken(f"the token of the provider is wrong: {_short(str(error))}") from None
    subject = claims.get("sub", "")
    if not isinstance(subject, str) or len(subject) > SUBJECT_CHARS or not subject.isprintable():
        raise token_not_taken("the subject is no text of the length that the standard allows")
    return dict(claims)


def _decoded(provider: Provider, text: str) -> Any:
    """Return the token if one of the provider's keys signed it. They are fetched again once."""
    from joserfc import jwt
    from joserfc.errors import BadSignatureError, InvalidKeyIdError
    from joserfc.jwk import KeySet
    from joserfc.jws import JWSRegistry

    if len(text) > MOST_CHARS:
        raise ValueError(f"it is longer than {MOST_CHARS} characters")
    registry = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)

    def by(keys: list[dict[str, Any]]) -> Any:
        return jwt.decode(text, KeySet.import_key_set({"keys": keys}), registry=registry)

    try:
        return by(provider.keys())
    except (InvalidKeyIdError, BadSignatureError):
        return by(provider.keys(newer=True))


def _userinfo(
    provider: Provider, access_token: str, claims: Mapping[str, Any], now: Instant
) -> dict[str, Any]:
    """Return what the provider says elsewhere of the same person; nothing if it has no address
    for that."""
    if provider.says("userinfo_endpoint") is None:
        return {}
    kind, raw = provider.userinfo(access_token)
    if kind.startswith(JWT):
        told = _checked(provider, raw.decode("ascii", "replace"), now, essential=("iss", "aud"))
    else:
        try:
            told = decode_json(raw, dict[str, Any])
        except (msgspec.DecodeError, UnicodeError):
            raise provider.unusable("said of the person what is no JSON object") from None
    if told.get("sub") != claims["sub"]:
        raise token_not_taken("the provider tells of another person than it let in")
    return told


def _groups(claims: Mapping[str, Any], path: str) -> frozenset[str] | None:
    """Return the groups of a claim, which may lie in others, as in `realm_access.roles`."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, str):
        return frozenset({found})
    is_list = isinstance(found, list) and len(found) <= MOST_GROUPS
    if is_list and all(isinstance(one, str) for one in found):
        return frozenset(found)
    if found is not None:
        _log.warning("the provider's claim %s holds no list of texts; it is ignored", path)
    return None


def _short(value: Any) -> str | None:
    return value[:SUBJECT_CHARS] if isinstance(value, str) and value else None
