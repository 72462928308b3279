"""Converts outcomes of jobs to JSON and back, whatever their texts contain.

The branch of an error is stored among its facts. A version that does not know branches treats it
as an ordinary fact, so old and new processes of a node can read each other's outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from odf_protocol.scalar_text import scalar_text

from ..ports.values import Failed, JobOutcome, Succeeded

BRANCH = "errorBranch"


def outcome_to_json(outcome: JobOutcome) -> dict[str, Any]:
    """Return the outcome with values that every JSON reader accepts."""
    if isinstance(outcome, Succeeded):
        return {"result": _plain(outcome.result)}
    facts = {**outcome.facts, BRANCH: outcome.branch} if outcome.branch else outcome.facts
    error, message = scalar_text(outcome.error), scalar_text(outcome.message)
    return {"error": error, "message": message, "facts": _plain(facts)}


def outcome_of(value: Mapping[str, Any] | None) -> JobOutcome | None:
    """Return the outcome in a row; ignore fields that a later version added."""
    if value is None:
        return None
    if "result" in value:
        return Succeeded(_plain(value["result"]))
    facts = dict(_plain(value.get("facts") or {}))
    branch = facts.pop(BRANCH, "")
    return Failed(scalar_text(value["error"]), scalar_text(value["message"]), facts, branch)


def _plain(value: Any) -> Any:
    """Keep Unicode scalar values and finite numbers; convert everything else to text."""
    if isinstance(value, str):
        return scalar_text(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {scalar_text(str(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return scalar_text(str(value))
