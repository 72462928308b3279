"""Ids of jobs: a number by which they sort, and a random tag that cannot be guessed."""

from __future__ import annotations

from ..ports.values import JobId
from ..sql.engine import storable


def job_id(number: int, tag: str) -> JobId:
    """Build an id that sorts by number; its random tag cannot be guessed."""
    return JobId(f"{number:012x}-{tag}")


def parse_id(job: str) -> tuple[int, str]:
    """Return number and tag of a job id; for any other text, `(0, "")`, which no job has."""
    number, _, tag = job.partition("-")
    try:
        parsed = int(number, 16)
    except ValueError:
        return 0, ""
    return (parsed, tag) if parsed < 1 << 63 and storable(tag) else (0, "")
