"""Repository names to dataset addresses, as the reference client finds them: three lookups."""

from __future__ import annotations

import json
from typing import Any

from .http import follow
from .outcomes import GaveUp, Why


def ask(origin: str, path: str, token: str | None) -> Any | None:
    """The JSON behind a lookup; None for any 4xx. What else is no JSON aborts."""
    bearer = [("authorization", f"Bearer {token}")] if token else []
    answer = follow("GET", f"{origin.rstrip('/')}/{path}", bearer)
    if 400 <= answer.status < 500:
        return None
    try:
        return json.loads(answer.body)
    except ValueError:
        raise GaveUp(Why.INTERNAL, f"{path}: HTTP {answer.status} without JSON") from None


def account_segment(repository: str, token: str | None) -> str | None:
    """The account a dataset of ours is published under; None when addresses have none."""
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
    """Where a push to a repository goes: the name the dataset has there, else the local one."""
    account = account_segment(repository, token)
    known = ask(repository, f"datasets/{dataset_id}", token)
    parts = [repository.rstrip("/"), account, known["datasetName"] if known else name]
    return "/".join(part for part in parts if part) + "/"
