"""Outcomes of a transfer for the reference client: updated, up to date, or an error."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from .http import Answer, NotHttp
from .shapes import BadShape
from .websocket import BrokenFraming, Closed, HandshakeRefused
from .wire import Disconnected


class Why(Enum):
    """The error kinds of the reference client, with its names for them."""

    NOT_FOUND = "dataset not found"
    UNAUTHENTICATED = "unauthenticated"
    UNAUTHORIZED = "unauthorized"
    DIVERGED = "diverged"
    AHEAD = "destination ahead"
    INVALID_INTERVAL = "invalid interval"
    OVERWRITE_SEED = "overwrite seed block"
    REF_COLLISION = "ref collision"
    NAME_COLLISION = "name collision"
    CORRUPTED = "corrupted source"
    DISCONNECTED = "client disconnected"
    INTERNAL = "internal error"


class GaveUp(Exception):
    """The client ends with an error. `facts` are the fields of the node's error."""

    def __init__(self, why: Why, text: str = "", **facts: Any) -> None:
        super().__init__(f"{why.value}: {text}" if text else why.value)
        self.why, self.text, self.facts = why, text, facts


@dataclass(frozen=True)
class Result:
    """A transfer that succeeded. `num_blocks` 0 means up to date."""

    old_head: str | None
    new_head: str
    num_blocks: int = 0

    @property
    def up_to_date(self) -> bool:
        return self.num_blocks == 0


REFUSED = {401: Why.UNAUTHENTICATED, 403: Why.UNAUTHORIZED, 404: Why.NOT_FOUND}
UNREADABLE = (BadShape, BrokenFraming, NotHttp)


def refused(refusal: HandshakeRefused) -> GaveUp:
    """Return the error for a refused handshake, with the part of the body in the first read."""
    why = REFUSED.get(refusal.status, Why.INTERNAL)
    return GaveUp(why, refusal.text if refusal.status == 400 else "", status=refusal.status)


def hung_up(error: Disconnected | Closed) -> GaveUp:
    return GaveUp(Why.DISCONNECTED, str(error))


def unreadable(error: Exception) -> GaveUp:
    return GaveUp(Why.INTERNAL, str(error))


def status_failure(answer: Answer, what: str) -> GaveUp:
    """Return the error for a status other than 2xx of an object or block."""
    return GaveUp(REFUSED.get(answer.status, Why.INTERNAL), f"{what}: HTTP {answer.status}")


def error_in(reply: dict[str, Any]) -> GaveUp | None:
    """Return the client's error for an `Err` of any message, or None for `Ok`."""
    if "Err" not in reply:
        return None
    name, facts = next(iter(reply["Err"].items()))
    why = {
        "InvalidInterval": Why.DIVERGED,
        "SeedBlockOverwriteRestricted": Why.OVERWRITE_SEED,
        "RefCollision": Why.REF_COLLISION,
        "NameCollision": Why.NAME_COLLISION,
    }.get(name, Why.INTERNAL)
    return GaveUp(why, name, **facts)
