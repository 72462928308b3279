"""The resources that stages used on Spark: for the receipt of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Where stages ran, the number of jobs and tasks, and bytes: shuffled between tasks, and
    spilled by Spark's sort of a shuffle, which takes place for more than 200 partitions only."""

    way: Literal["process", "spark"] = "process"
    jobs: int = 0
    tasks: int = 0
    shuffle_bytes: int = 0
    spill_bytes: int = 0
    page: str | None = None
    """URL of Spark's page about its jobs, if it serves one."""
