"""The contract of a compaction job: its payload. The result is a `HistoryReceipt`."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from odf_protocol.typed import convert

KIND = "compact"


class CompactPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How to compact; absent limits are those of `SliceLimits`."""

    max_slice_size: int | None = None
    max_slice_records: int | None = None
    requested_by: str | None = None
    """Name of the account that submitted the job, for the record."""


def to_json(value: CompactPayload) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> CompactPayload:
    return convert(value, CompactPayload)
