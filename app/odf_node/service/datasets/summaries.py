"""Summaries of datasets, for lists."""

from __future__ import annotations

from typing import Any

from odf_storage.datasets.node.overviews import overview_now
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.overview_values import Listed
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.dataset_access import DatasetAccess


def summary(access: DatasetAccess, entry: DatasetEntry, base: str) -> dict[str, Any]:
    """Return the entry of a dataset in a list."""
    alias = access.shown_alias(entry)
    return {
        "id": str(entry.id),
        "alias": alias,
        "kind": str(entry.kind),
        "visibility": str(entry.visibility),
        "createdAt": str(entry.created_at),
        "url": f"{base}{alias}",
    }


def detailed_summary(
    stores: Stores, access: DatasetAccess, listed: Listed, base: str
) -> dict[str, Any]:
    """Return the entry of a dataset in a list, with facts of its chain as of the head."""
    said = overview_now(stores, listed)
    return {
        **summary(access, listed.entry, base),
        "records": said.records,
        "dataSize": said.data_size,
        "blocks": said.blocks,
        "updatedAt": str(said.updated_at),
        "description": said.description,
        "license": said.license,
        "keywords": list(said.keywords),
    }
