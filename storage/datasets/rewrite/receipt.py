"""What became of a change of history, as a job or an endpoint reports it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from odf_node.protocol.typed import convert


class MergedBlocks(Struct, frozen=True, kw_only=True, rename="camel"):
    """Blocks that became, or would become, one. Numbers are those before; offsets are closed."""

    from_block: int
    to_block: int
    slices: int
    offset_start: int
    offset_end: int
    size: int
    """Bytes of the slices it is made of."""


class HistoryReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """Heads before and after; what was there and what is."""

    outcome: Literal["updated", "up-to-date", "nothing-to-do"]
    prev_head: str
    head: str | None
    """None for a dry run whose new blocks were not made."""
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
