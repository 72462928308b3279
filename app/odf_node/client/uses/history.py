"""Compact, reset and set watermarks of a dataset on a node, by its HTTP interface."""

from __future__ import annotations

from typing import Any

from ..nodes.node_api import NodeApi, Seen


def compact(
    api: NodeApi,
    *,
    max_slice_size: int | None = None,
    max_slice_records: int | None = None,
    keep_metadata_only: bool = False,
    dry_run: bool = False,
    seen: Seen | None = None,
) -> dict[str, Any]:
    """Compact the dataset, wait for the result, and return the receipt."""
    return api.act(
        "compact",
        seen=seen,
        maxSliceSize=max_slice_size,
        maxSliceRecords=max_slice_records,
        keepMetadataOnly=keep_metadata_only or None,
        dryRun=dry_run or None,
    )


def reset(
    api: NodeApi, *, block: str | None, old_head: str | None, dry_run: bool = False
) -> dict[str, Any]:
    return api.act("reset", block=block, oldHead=old_head, dryRun=dry_run or None)


def set_watermark(api: NodeApi, watermark: str, *, dry_run: bool = False) -> dict[str, Any]:
    return api.act("set-watermark", watermark=watermark, dryRun=dry_run or None)
