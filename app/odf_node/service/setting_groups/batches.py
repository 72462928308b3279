"""Posts, jobs that wait, derivatives and schedules."""

from __future__ import annotations

from pydantic import Field

from odf_storage.runtime.shared_settings import SharedSettings


class BatchSettings(SharedSettings):
    """Posts, jobs that wait, derivatives and schedules."""

    poll_s: float = Field(
        1.0,
        gt=0,
        le=60,
        description="Seconds between two looks for what is to be done (inputs that moved, ends of "
        "jobs, schedules, mirrors, webhooks) when no wake-up comes.",
    )
    follow_inputs: bool = Field(
        True, description="Whether derivatives are computed by themselves when an input moves."
    )
    query_check_s: float = Field(
        20.0,
        ge=0,
        description="Seconds a new transform waits to be looked at by a worker; then it is taken.",
    )
    ingest_wait_s: float = Field(
        60.0,
        ge=0,
        description="Seconds an ingest request waits for its result before it is answered 202.",
    )
    job_keep_s: int = Field(
        30 * 86_400, gt=0, description="Seconds a job is kept after its end, with its receipt."
    )
    rejected_rows_keep_s: int = Field(
        7 * 86_400,
        gt=0,
        description="Seconds the bad rows are kept that a batch was ingested without.",
    )
    max_waiting_dataset: int = Field(
        1_000, gt=0, description="Most jobs that may wait for one dataset; more are answered 429."
    )
    max_waiting_account: int = Field(
        5_000, gt=0, description="Most jobs one account may have waiting; more are answered 429."
    )
    max_waiting_node: int = Field(
        50_000, gt=0, description="Most jobs that may wait on the node; more are answered 503."
    )
