"""The contract of a poll job: what a service asks and a worker answers.

One job fetches the polling source of a dataset once, or until it has nothing more to give.
Every fetch commits on its own, so a job that fails may have committed something before.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from odf_node.protocol.typed import convert

from .ingest_job import RanReceipt, RowsReceipt

KIND = "poll"


class PollPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How to poll."""

    exhaust_sources: bool = False
    """Go on while the source says that it has more."""
    fetch_uncacheable: bool = False
    """Fetch also where nothing tells what was fetched before; an append source repeats itself."""
    source_event_time: str | None = None
    """Fallback event time where the source names no event time of its own."""
    max_vanish_percent: int | None = None
    """Rows of a snapshot that may vanish at once; absent means the setting of the worker."""


class PollReceipt(RowsReceipt, frozen=True, kw_only=True, rename="camel"):
    """What became of the poll: sums over all its fetches; hashes and size are of the last slice."""

    ran: RanReceipt | None = None
    """Of the last fetch; None where blocks of an earlier attempt are told of."""
    fetches: int = 0
    """How many fetches gave something new."""
    has_more: bool = False
    """Whether the source has more to give."""
    uncacheable: bool = False
    """Nothing was fetched, since nothing tells what was fetched before."""
    no_source_defined: bool = False


def to_json(value: PollPayload | PollReceipt) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> PollPayload:
    return convert(value, PollPayload)


def receipt_of(value: dict[str, Any]) -> PollReceipt:
    return convert(value, PollReceipt)
