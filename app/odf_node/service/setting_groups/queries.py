"""Queries, Flight SQL, signatures of answers.

Posts, jobs that wait, derivatives and schedules.

Who is let in: anonymous callers, logins, sessions, passwords.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from odf_storage.runtime.environment import SharedSettings

from .words import MIB, AnonymousReads


class QuerySettings(SharedSettings):
    """Queries, Flight SQL, signatures of answers."""

    query_processes: int = Field(
        3, gt=0, description="Queries that run at a time, each in a process of its own."
    )
    query_time_s: float = Field(
        60.0,
        gt=0,
        description="Seconds a query may take, waiting for its client aside; more: 413, or the "
        "answer breaks off.",
    )
    query_threads: int = Field(
        1,
        gt=0,
        le=64,
        description="Partitions a query is computed in. With more than one the order of rows "
        "without ORDER BY, and the last digits of sums, may differ from run to run; answers with "
        "a proof are computed in one.",
    )
    query_process_bytes: int = Field(
        1024 * MIB,
        ge=128 * MIB,
        description="Memory of the process of a query, beyond what it starts with; more: 413.",
    )
    query_spill_bytes: int = Field(
        4096 * MIB, ge=MIB, description="Longest file to which a query may spill rows."
    )
    query_links: Path | None = Field(
        None,
        description="Folder of the links by which a query finds its slices; none: memory "
        "(/dev/shm) where the system has it, else the data folder.",
    )
    query_max_bytes: int = Field(
        32 * MIB, ge=1024, description="Longest answer of a query; longer ones: 413, or break off."
    )
    query_max_rows: int = Field(
        1_000_000, gt=0, description="Most rows that one query may ask for."
    )
    query_text_bytes: int = Field(64 * 1024, gt=0, description="Longest text of a query, in bytes.")
    query_copies_bytes: int = Field(
        8192 * MIB,
        ge=0,
        description="Bytes of slices out of a bucket kept in the data folder for later queries.",
    )
    query_result_keep_s: int = Field(
        86_400, gt=0, description="Seconds for which rows of a query job can be read."
    )
    query_confinement: Literal["auto", "require", "off"] = Field(
        "auto",
        description="Confinement of processes of queries by the kernel: as far as it can (`auto`), "
        "wholly or not at all (`require`), or by limits only (`off`).",
    )
    flight_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of Flight SQL (gRPC) beside that of HTTP; 0 picks one, none: not served.",
    )
    flight_tls_key: Path | None = Field(None, description="Key (PEM) of TLS for Flight SQL.")
    flight_tls_certificates: Path | None = Field(None, description="Its certificates (PEM).")
    flight_calls: int = Field(
        32, gt=0, description="Calls of Flight SQL at a time; more are answered UNAVAILABLE."
    )
    signing_key: str | None = Field(
        None,
        repr=False,
        description="Ed25519 key that signs answers with a proof, 32 bytes in base64 or hex; "
        "none: the key that the node makes at its first start.",
    )
    signing_key_file: Path | None = Field(
        None, description="A file with that key, instead of the key itself."
    )
    signing_keys_retired: tuple[str, ...] = Field(
        (),
        description="Public keys, as JSON of `did:key` texts, that signed earlier answers; they "
        "are published beside the key.",
    )


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


class CallerSettings(SharedSettings):
    """Who is let in: anonymous callers, logins, sessions, passwords."""

    allow_anonymous: bool = Field(
        True, description="Whether callers without a token may read public datasets."
    )
    anonymous_reads: AnonymousReads = Field(
        AnonymousReads.PUBLIC,
        description="Which datasets everybody reads who is let in: `public` ones, or `all`, "
        "private ones, too (for a private workshop).",
    )
    share: float = Field(
        0.34,
        gt=0,
        le=1,
        description="Part, rounded up, that one account, or one address without an account, may "
        "hold of what all callers have at a time: queries, readers, bodies, transfers, listeners, "
        "calls of Flight SQL. More wait a moment, or are answered 429. A start is refused where "
        "the part of a pool would be all of it, except with 1.",
    )
    session_ttl_s: int = Field(
        86_400, gt=0, description="Seconds a session stays valid after its login."
    )
    password_work: int = Field(
        15,
        ge=1,
        le=20,
        description="Cost of guessing a new password: 2 to this power KiB of scrypt, three times.",
    )
    login_attempts: int = Field(
        5, gt=0, description="Failed logins one address may make per account before it has to wait."
    )
