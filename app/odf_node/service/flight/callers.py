"""Authentication of Flight calls by the header `authorization`, with a token or as `anonymous`.

A client without a token begins with a handshake as `anonymous`. The token in the response grants no
rights and is not stored: it only marks later calls as anonymous.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from urllib.parse import unquote

from odf_protocol.errors import Refused
from odf_storage.runtime.randomness import Random

from ..auth.access import Unauthenticated, admit, refuse_bad_token
from ..auth.actors import ANONYMOUS, MAX_HEADER_CHARS, Actor, bearer_of
from ..auth.callers import Callers
from ..limits.shares import caller_of

HEADER = "authorization"
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_NOBODY = re.compile(rf"anon_[{_CROCKFORD}]{{26}}")
_BASIC = re.compile(r"[Bb][Aa][Ss][Ii][Cc] +([A-Za-z0-9+/_-]*)=* *")
_ANONYMOUS = {("anonymous", ""), ("anonymous", "anonymous"), ("kamu", "kamu")}
"""Names and passwords of anonymous calls. Older clients send the last pair."""


class BasicRefused(Refused):
    """The call has a name and a password, but accounts have to send tokens."""

    def __init__(self) -> None:
        super().__init__(
            "Basic auth is only supported for 'anonymous' accounts with no password. "
            "Authenticated users should use Bearer token auth mechanism."
        )


class CallersOfFlight:
    """Identifies the actors of calls, in the threads of calls."""

    def __init__(self, callers: Callers, random: Random, *, allow_anonymous: bool) -> None:
        self._callers, self._random = callers, random
        self._allow_anonymous = allow_anonymous

    def of(self, headers: Sequence[tuple[str, str | bytes]]) -> Actor:
        """Return the actor of a call with these headers.

        Raises:
            Unauthenticated, BasicRefused, MalformedBearer, TokenInvalid, TokenExpired,
            AnonymousRestricted.
        """
        found = [value for name, value in headers if name.lower() == HEADER]
        if not found:
            raise Unauthenticated
        actor = self._actor(found)
        refuse_bad_token(actor)
        admit(actor, allow_anonymous=self._allow_anonymous)
        return actor

    def answer_to(self, actor: Actor) -> str:
        """Return the value of the header that the client has to send with its next calls."""
        return f"Bearer {actor.bearer or nobody(self._random)}"

    def _actor(self, found: Sequence[str | bytes]) -> Actor:
        first = found[0] if isinstance(found[0], str) else found[0].decode("latin-1")
        basic = _BASIC.fullmatch(first[:MAX_HEADER_CHARS])
        if basic is not None and len(found) == 1:
            if credentials(basic[1]) not in _ANONYMOUS:
                raise BasicRefused
            return ANONYMOUS
        bearer = bearer_of([(HEADER.encode(), first.encode("latin-1"))] * len(found))
        if bearer is not None and _NOBODY.fullmatch(bearer):
            return ANONYMOUS
        return self._callers.identify(bearer)


def credentials(encoded: str) -> tuple[str, str] | None:
    """Decode name and password of Basic authentication, also without padding, as drivers send it.
    Return None if that fails."""
    padded = encoded.replace("-", "+").replace("_", "/") + "=" * (-len(encoded) % 4)
    try:
        name, _, password = base64.b64decode(padded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return name, password


def nobody(random: Random) -> str:
    """Return a new token that marks calls as anonymous."""
    value = int.from_bytes(random(16), "big")
    return "anon_" + "".join(_CROCKFORD[value >> 5 * at & 31] for at in reversed(range(26)))


def share_of(actor: Actor, peer: str) -> str:
    """Return the caller whose share a call uses."""
    return caller_of({"state": {"actor": actor}, "client": (host_of(peer), 0)})


def host_of(peer: str) -> str:
    """Return the IP address of a peer. gRPC writes it as `ipv4:127.0.0.1:50312`."""
    kind, _, rest = peer.partition(":")
    return unquote(rest).rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else peer
