"""Find the address of a dataset in a repository as the reference client does, by three lookups."""

from __future__ import annotations

import json
from typing import Any

from .http import follow
from .outcomes import GaveUp, Why


def ask(origin: str, path: str, token: str | None) -> Any | None:
    """Return the JSON response of a lookup, or None for any 4xx. Raise `GaveUp` without JSON."""
    bearer = [("authorization", f"Bearer {token}")] if token else []
    answer = follow("GET", f"{origin.rstrip('/')}/{path}", bearer)
    if 400 <= answer.status < 500:
        return None
    try:
        return json.loads(answer.body)
    except ValueError:
        raise GaveUp(Why.INTERNAL, f"{path}: HTTP {answer.status} without JSON") from None


def account_segment(repository: str, token: str | None) -> str | None:
    """Return the account under which our datasets are published, or None if addresses have none."""
    info = ask(repository, "info", token)
    if info is None or not info.get("isMultiTenant"):
        return None
    me = ask(repository, "accounts/me", token)
    if me is None:
        return None
    if "accountName" not in me:
        raise GaveUp(Why.INTERNAL, "/accounts/me names no account")
    return str(me["accountName"])


def push_target(repository: str, dataset_id: str, name: str, token: str | None) -> str:
    """Return the address for a push to a repository.

    It ends with the name that the dataset has there, or else with the local name.
    """
    account = account_segment(repository, token)
    known = ask(repository, f"datasets/{dataset_id}", token)
    parts = [repository.rstrip("/"), account, known["datasetName"] if known else name]
    return "/".join(part for part in parts if part) + "/"
