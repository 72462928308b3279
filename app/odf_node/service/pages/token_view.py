"""Rows of token lists on pages: rights, reach and expiry of each token; never a secret."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_storage.stores.ports.values import Reach

from ..auth.dataset_access import DatasetAccess

WHERE = {Reach.NODE.value: "all that the account may", Reach.ACCOUNT.value: "own datasets only"}


def shown_tokens(
    access: DatasetAccess, tokens: Sequence[dict[str, Any]], now: Instant
) -> list[dict[str, Any]]:
    """Return the rows for tokens (as from `token_data`): valid ones first, then newest first."""
    ids = {
        one["datasetId"]: DatasetId.parse(one["datasetId"]) for one in tokens if one["datasetId"]
    }
    found = access.registry.find_all(set(ids.values()))
    names = {text: access.shown_alias(found[one]) for text, one in ids.items() if one in found}
    rows = [
        {
            **one,
            "state": _state(one, now),
            "where": WHERE.get(one["reach"]) or names.get(one["datasetId"], "a deleted dataset"),
        }
        for one in sorted(tokens, key=_made, reverse=True)
    ]
    return sorted(rows, key=_is_over)


def _made(token: dict[str, Any]) -> str:
    return str(token["createdAt"])


def _is_over(token: dict[str, Any]) -> bool:
    return bool(token["state"] != "valid")


def _state(token: dict[str, Any], now: Instant) -> str:
    if token["revokedAt"]:
        return "revoked"
    ends = token["expiresAt"]
    return "expired" if ends and Instant.parse(ends) <= now else "valid"
