"""The dataset most end-to-end tests post to: a ledger of numbered readings, as CSV."""

from __future__ import annotations

from typing import Any

import httpx

FIELDS = ({"name": "id", "type": "Int64"}, {"name": "at", "type": "Timestamp"})


def snapshot(name: str = "readings", *more: dict[str, Any]) -> dict[str, Any]:
    """Its manifest, with more fields than `id` and `at`."""
    push = {
        "kind": "AddPushSource",
        "sourceName": "default",
        "read": {"kind": "Csv", "header": True, "schema": {"fields": [*FIELDS, *more]}},
        "merge": {"kind": "Ledger", "primaryKey": ["id"]},
    }
    vocab = {"kind": "SetVocab", "eventTimeColumn": "at"}
    content = {"name": name, "kind": "Root", "metadata": [push, vocab]}
    return {"kind": "DatasetSnapshot", "version": 1, "content": content}


def post(
    api: httpx.Client, text: str, name: str = "readings", kind: str = "text/csv", **given: Any
) -> httpx.Response:
    """Rows, as CSV unless said otherwise: lines, the names of the columns first."""
    headers = {"content-type": kind}
    return api.post(f"/{name}/ingest", content=text.encode(), headers=headers, **given)
