"""The contract of a poll job: payload and receipt.

One job fetches the polling source of a dataset once, or until the source has nothing more.
Every fetch makes its own commit, so a job that fails may have committed something before.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from odf_protocol.typed import convert

from .ingest_job import RanReceipt, RowsReceipt

KIND = "poll"


class PollPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How to poll."""

    exhaust_sources: bool = False
    """Continue while the source says that it has more."""
    fetch_uncacheable: bool = False
    """Fetch even if nothing shows what was fetched before; append merges then repeat rows."""
    source_event_time: str | None = None
    """Fallback event time if the source gives no event time."""
    max_vanish_percent: int | None = None
    """Limit, in percent, of rows of a snapshot that may vanish at once; absent: the setting of the
    worker."""
    late_files: bool = False
    """Take files of a folder that were never taken, although they sort before the last one."""
    files: tuple[str, ...] = ()
    """Names of files of a folder that are taken, although they were taken before."""

    @property
    def exhausts(self) -> bool:
        """Whether to continue while the source has more."""
        return self.exhaust_sources or self.late_files or bool(self.files)


class PollReceipt(RowsReceipt, frozen=True, kw_only=True, rename="camel"):
    """The result of the poll: sums over all its fetches; hashes and size are of the last slice."""

    ran: RanReceipt | None = None
    """Sums over all fetches of this attempt; None if an earlier attempt made all commits."""
    fetches: int = 0
    """Number of fetches that gave something new."""
    has_more: bool = False
    """Whether the source has more to give."""
    uncacheable: bool = False
    """Nothing was fetched, since nothing shows what was fetched before."""
    no_source_defined: bool = False


def to_json(value: PollPayload | PollReceipt) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> PollPayload:
    return convert(value, PollPayload)


def receipt_of(value: dict[str, Any]) -> PollReceipt:
    return convert(value, PollReceipt)
