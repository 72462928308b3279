"""Ids of jobs: a number that they sort by, and a random tag that nobody guesses."""

from __future__ import annotations

from ..ports.values import JobId
from ..sql.engine import storable


def job_id(number: int, tag: str) -> JobId:
    """Sorts by number; the random tag keeps ids from being guessed."""
    return JobId(f"{number:012x}-{tag}")


def parse_id(job: str) -> tuple[int, str]:
    """Number and tag of a job id; for anything else those of no job."""
    number, _, tag = job.partition("-")
    try:
        parsed = int(number, 16)
    except ValueError:
        return 0, ""
    return (parsed, tag) if parsed < 1 << 63 and storable(tag) else (0, "")
