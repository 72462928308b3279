"""The header `odf-event-time`: the event time of posted or polled rows that carry none."""

from __future__ import annotations

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant, MalformedInstant


class InvalidEventTime(BadInput):
    """The `odf-event-time` header is no RFC 3339 instant."""


def parsed_event_time(given: str | None) -> str | None:
    """Return the `odf-event-time` header in canonical form. Raises `InvalidEventTime`."""
    if given is None:
        return None
    try:
        return str(Instant.parse(given.strip()))
    except MalformedInstant as broken:
        raise InvalidEventTime(f"odf-event-time: {broken.message}") from None
