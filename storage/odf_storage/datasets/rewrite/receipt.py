"""The result of a change of history, as a job or an endpoint reports it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from odf_protocol.typed import convert


class MergedBlocks(Struct, frozen=True, kw_only=True, rename="camel"):
    """Blocks that became, or would become, one block. Block numbers are those before the change;
    the offsets include both ends."""

    from_block: int
    to_block: int
    slices: int
    offset_start: int
    offset_end: int
    size: int
    """Bytes of the slices that are merged."""


class HistoryReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """Heads, and numbers of blocks and records, before and after the change."""

    outcome: Literal["updated", "up-to-date", "nothing-to-do"]
    prev_head: str
    head: str | None
    """New head; None for a dry run, which makes no blocks."""
    blocks_before: int
    blocks_after: int
    records_before: int
    records_after: int
    dry_run: bool = False
    merges: tuple[MergedBlocks, ...] = ()
    watermark: str | None = None


def to_json(receipt: HistoryReceipt) -> dict[str, Any]:
    return dict(msgspec.to_builtins(receipt))


def receipt_of(value: dict[str, Any]) -> HistoryReceipt:
    return convert(value, HistoryReceipt)
