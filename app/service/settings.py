"""Every setting of the service: name, default, meaning; its only reader of the environment.

Variables are `ODF_NODE_` and the name in capitals; the settings that workers share are in
`storage/runtime/shared_settings.py`. Unknown variables are refused, so that a misspelt limit is
noticed.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, IPvAnyNetwork, PositiveFloat, field_validator

from odf_node.storage.runtime import old_settings
from odf_node.storage.runtime.environment import read_settings
from odf_node.storage.runtime.shared_settings import SharedSettings

from ..client.environment import VARIABLES as OF_CLIENT

MIB = 1024 * 1024
MIN_MESSAGE_BYTES = 64 * 1024


class Tenancy(StrEnum):
    """Whether dataset addresses carry an account."""

    SINGLE = "single"
    MULTI = "multi"


class AnonymousReads(StrEnum):
    """Which datasets callers read who have no right of their own."""

    PUBLIC = "public"
    ALL = "all"


class Settings(SharedSettings):
    """The service's settings, frozen once read."""

    PREFIX: ClassVar[str] = "ODF_NODE_"

    host: str = Field("127.0.0.1", description="Address the service listens on.")
    port: int = Field(8080, ge=0, le=65535, description="Port the service listens on; 0 picks one.")
    tenancy: Tenancy = Field(
        Tenancy.SINGLE,
        description="`single`: datasets at /name, owned by kamu; `multi`: at /account/name.",
    )
    objects_public_url: str | None = Field(
        None,
        pattern=r"^https?://[^/@?#\s]+/?$",
        description="Address clients reach the bucket's server at, such as https://s3.example.com; "
        "none means the one the node uses.",
    )
    public_url: str | None = Field(
        None,
        description="Address clients reach the node at; none means the Host header of the request.",
    )
    allow_anonymous: bool = Field(
        True, description="Whether callers without a token may read public datasets."
    )
    anonymous_reads: AnonymousReads = Field(
        AnonymousReads.PUBLIC,
        description="Which datasets everybody reads who is let in: `public` ones, or `all`, "
        "private ones, too (for a private workshop).",
    )
    workers: int = Field(
        1, ge=0, le=64, description="Worker processes the service starts and keeps alive; 0 = none."
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
    login_window_s: float = Field(
        300.0, gt=0, description="Seconds after which failed logins are forgotten."
    )
    device_login_ttl_s: int = Field(
        300, gt=0, description="Seconds a command line waits for its user to log in on a page."
    )
    device_logins_per_address: int = Field(
        100,
        gt=0,
        description="Logins of command lines one address may begin within login_window_s.",
    )
    max_device_logins: int = Field(
        2_000, gt=0, description="Most command lines that may wait for their users at a time."
    )
    max_upload_bytes: int = Field(
        50 * MIB, gt=0, description="Largest file uploaded to be ingested later, in bytes."
    )
    max_uploads: int = Field(
        1000, gt=0, description="Most files one account may have uploaded at a time."
    )
    max_begun_uploads: int = Field(
        100,
        gt=0,
        description="Most objects of one dataset, slices and checkpoints apart, of which a part "
        "was uploaded and not the rest; more are answered 429. After a day without a further part "
        "one is cleared away.",
    )
    max_begun_uploads_account: int = Field(
        300,
        gt=0,
        description="Most objects, of all datasets, of which one account has uploaded a part and "
        "not the rest; more are answered 429.",
    )
    max_begun_bytes_account: int = Field(
        64 * 1024 * MIB,
        gt=0,
        description="Most bytes these objects may have, whole as they were announced; more are "
        "answered 429.",
    )
    min_free_bytes: int = Field(
        256 * MIB,
        ge=0,
        description="Free space of the data folder below which readiness says `degraded`.",
    )
    upload_keep_s: int = Field(
        86_400, gt=0, description="Seconds an uploaded file is kept before it is cleared away."
    )
    max_body_bytes: int = Field(
        1024 * MIB, gt=0, description="Largest body of one ingest request, in bytes."
    )
    max_object_bytes: int = Field(
        16 * 1024 * MIB,
        gt=0,
        description="Largest data slice or checkpoint taken by PUT, in bytes.",
    )
    body_idle_s: float = Field(
        60.0, gt=0, description="Seconds a request body may pause before the request is given up."
    )
    body_min_bytes_s: int = Field(
        1024,
        ge=0,
        description="Slowest pace of a request body, in bytes a second; below it, 408.",
    )
    body_pace_s: float = Field(
        30.0, gt=0, description="Seconds of waiting for a body over which its pace is measured."
    )
    max_bodies: int = Field(
        32,
        gt=0,
        description="Longer bodies received at once, those of posts and those of objects apart; "
        "others wait for their turn.",
    )
    max_bodies_caller: int = Field(
        8, gt=0, description="Of these, bodies of one account; its others wait for their turn."
    )
    header_wait_s: float = Field(
        30.0,
        gt=0,
        description="Seconds until the header of a request has to be here: from its first byte, "
        "or for the first one from the connection on.",
    )
    max_url_bytes: int = Field(
        64 * 1024, ge=1024, description="Longest address of a request, in bytes; more: 414."
    )
    max_header_bytes: int = Field(
        64 * 1024,
        ge=1024,
        description="Most bytes of the header lines of a request, trailers included; more: 431.",
    )
    max_headers: int = Field(
        128, ge=16, description="Most header lines of a request, trailers included; more: 431."
    )
    max_manifest_bytes: int = Field(
        2 * MIB, gt=0, description="Largest manifest of a dataset or an event, in bytes."
    )
    ws_max_message_bytes: int = Field(
        64 * MIB,
        ge=MIN_MESSAGE_BYTES,
        description="Largest message of a push, in bytes; the reference peer sends up to 64 MiB, "
        "all blocks of a push in one.",
    )
    ws_max_pull_message_bytes: int = Field(
        16 * MIB,
        ge=MIN_MESSAGE_BYTES,
        description="Largest message of a client that pulls, in bytes; it names the objects it "
        "lacks, in some 130 bytes each.",
    )
    ws_first_message_bytes: int = Field(
        MIB,
        ge=1024,
        description="Largest first message of a smart transfer, in bytes; until it is here nobody "
        "knows that the peer means it.",
    )
    ws_max_frames: int = Field(
        16_384,
        ge=16,
        description="Most frames of one WebSocket message, and most pings of a peer in a minute.",
    )
    max_transfers: int = Field(
        512, gt=0, description="Most smart transfers open at a time; more are answered 503."
    )
    max_transfers_caller: int = Field(
        32,
        gt=0,
        description="Most smart transfers one account, or one address without an account, may "
        "have open; more are answered 429.",
    )
    max_batch_blocks: int = Field(
        1_000_000, gt=0, description="Most blocks taken in one smart transfer."
    )
    max_batch_bytes: int = Field(
        512 * MIB, gt=0, description="Most bytes of blocks in one smart transfer, uncompressed."
    )
    upload_progress_s: float = Field(
        10.0, gt=0, description="Seconds between progress requests while a push uploads objects."
    )
    close_wait_s: float = Field(
        5.0, gt=0, description="Seconds the node waits for a peer to close its WebSocket."
    )
    transfer_idle_s: float = Field(
        86_400.0,
        gt=0,
        description="Seconds a push may stay silent before it is ended, while it uploads.",
    )
    transfer_first_s: float = Field(
        60.0, gt=0, description="Seconds within which a smart transfer has to begin to speak."
    )
    pull_idle_s: float = Field(
        600.0, gt=0, description="Seconds a client that pulls may stay silent before it is ended."
    )
    transfer_url_ttl_s: int = Field(
        3600,
        gt=0,
        description="Seconds a presigned transfer URL, or a signed URL of the node, stays valid.",
    )
    mirror_networks: tuple[IPvAnyNetwork, ...] = Field(
        (), description="Ranges mirrors may pull from, beside the public network."
    )
    mirror_threads: int = Field(
        2, ge=0, le=64, description="Mirrors this service pulls at the same time; 0 = none."
    )
    mirror_poll_s: float = Field(
        2.0, gt=0, description="Seconds between two looks for mirrors that are to be pulled."
    )
    follow_inputs: bool = Field(
        True, description="Whether derivatives are computed by themselves when an input moves."
    )
    follow_debounce_s: float = Field(
        0.2, ge=0, description="Seconds more may come in before a derivative is computed."
    )
    follow_poll_s: float = Field(
        1.0, gt=0, description="Seconds between two looks for inputs of derivatives that moved."
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
    ingest_poll_s: float = Field(
        0.5,
        gt=0,
        le=10,
        description="Seconds after which a job is looked at again when no wake-up comes.",
    )
    request_key_ttl_s: int = Field(
        86_400, gt=0, description="Seconds a request is known by its Idempotency-Key."
    )
    job_keep_s: int = Field(
        30 * 86_400, gt=0, description="Seconds a job is kept after its end, with its receipt."
    )
    rejected_rows_keep_s: int = Field(
        7 * 86_400,
        gt=0,
        description="Seconds the bad rows are kept that a batch was ingested without.",
    )
    schedule_tick_s: float = Field(
        1.0, gt=0, le=60, description="Seconds between two looks for schedules that are due."
    )
    max_unpacked_ratio: int = Field(
        200, gt=0, description="How often larger a compressed body may become when it is unpacked."
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
    max_page: int = Field(1000, gt=0, description="Most datasets in one page of a listing.")
    max_tail_records: int = Field(
        10_000,
        gt=0,
        description="Most records answered (skipped ones included) by one tail request, or by one "
        "look-up.",
    )
    learned_bounds: int = Field(
        200_000,
        ge=0,
        description="Least and greatest values of columns in slices that the service remembers, "
        "some 300 bytes each, so that filters open fewer slices; 0: none.",
    )
    slice_memory_bytes: int = Field(
        2048 * MIB,
        ge=256 * MIB,
        description="Memory of a process that looks at received slices, in bytes.",
    )
    slice_check_s: float = Field(
        300.0,
        gt=0,
        description="Seconds looking at received slices may take, for each GiB of them begun.",
    )
    max_slice_ratio: int = Field(
        1000,
        gt=0,
        description="How often larger than its file the values of a received slice may be; "
        "64 MiB are always taken.",
    )
    rows_hashed_at_once_bytes: int | None = Field(
        None,
        ge=0,
        description="Largest slices of one push or pull, in bytes, whose rows are hashed before "
        "they count; of larger ones a job hashes them afterwards. None: rows are always hashed "
        "before.",
    )
    max_tail_bytes: int = Field(
        32 * MIB,
        ge=1024,
        description="Most bytes of records answered by one tail request or look-up; more: 413.",
    )
    max_read_bytes: int = Field(
        64 * 1024 * MIB,
        ge=1024,
        description="Most bytes answered by one read of rows; at that point the answer breaks off.",
    )
    gateway_rewrite_bytes: int = Field(
        1024 * MIB,
        ge=0,
        description="Most bytes of a slice that is written anew for readers: from before a column "
        "was added, at /platform/kartothek; with rows taken back, for changes of a shared table.",
    )
    dead_rows_bytes: int = Field(
        64 * MIB, ge=1024, description="Most bytes that tell rows taken back of one shared table."
    )
    sharing_new_files: int = Field(
        1_000, ge=0, description="Most versions that take rows back in one feed of changes."
    )
    readers: int = Field(
        8,
        gt=0,
        description="Processes that read rows at a time for reads, as many for tails, and as many "
        "for look-ups; they are there only while they do. More wait a moment, then 503.",
    )
    readers_caller: int = Field(
        4,
        gt=0,
        description="Of these, for one account, or one address without an account; more wait a "
        "moment, then 429.",
    )
    reader_wait_s: float = Field(
        5.0, ge=0, description="Seconds a request waits until a process can read for it."
    )
    reader_memory_bytes: int = Field(
        1024 * MIB,
        ge=64 * MIB,
        description="Memory of a process that reads rows, beyond what it starts with; more: 413.",
    )
    read_held_bytes: int = Field(
        MIB,
        ge=0,
        description="Bytes of rows held back until the answer's end is known: answers up to this "
        "have a `Content-Length`, longer ones are sent as they come.",
    )
    reader_silent_s: float = Field(
        300.0,
        gt=0,
        description="Seconds a process that reads rows may take until the next piece of its "
        "answer; more: 503, or the answer breaks off.",
    )
    reader_idle_s: float = Field(
        60.0,
        gt=0,
        description="Seconds a client may take nothing of the rows it reads before they break off.",
    )
    query_processes: int = Field(
        2, gt=0, description="Queries that run at a time, each in a process of its own."
    )
    query_processes_caller: int = Field(
        2,
        gt=0,
        description="Of these, for one account, or one address without an account; more wait a "
        "moment, then 429.",
    )
    query_wait_s: float = Field(
        10.0, ge=0, description="Seconds a query waits until it can run; then 429."
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
    query_pool_bytes: int = Field(
        512 * MIB, ge=16 * MIB, description="Bytes of rows a query holds before it spills them."
    )
    query_process_bytes: int = Field(
        1024 * MIB,
        ge=128 * MIB,
        description="Memory of the process of a query, beyond what it starts with; more: 413.",
    )
    query_spill_bytes: int = Field(
        4096 * MIB, ge=MIB, description="Longest file to which a query may spill rows."
    )
    query_max_bytes: int = Field(
        32 * MIB, ge=1024, description="Longest answer of a query; longer ones: 413, or break off."
    )
    query_max_rows: int = Field(
        1_000_000, gt=0, description="Most rows that one query may ask for."
    )
    query_max_datasets: int = Field(64, gt=0, description="Most datasets that one query may name.")
    query_text_bytes: int = Field(64 * 1024, gt=0, description="Longest text of a query, in bytes.")
    query_text_terms: int = Field(
        3_000, gt=0, description="Most operators, clauses and brackets in a query."
    )
    query_text_depth: int = Field(100, gt=0, description="Deepest nesting of brackets in a query.")
    query_remembered_slices: int = Field(
        200_000,
        gt=0,
        description="Slices, of all datasets in sum, of which the service remembers where they "
        "stand in their chain, so that reads, look-ups and queries need not read the chain again.",
    )
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
    flight_message_bytes: int = Field(
        4 * MIB, ge=65_536, description="Longest message of a client of Flight SQL."
    )
    flight_calls: int = Field(
        32, gt=0, description="Calls of Flight SQL at a time; more are answered UNAVAILABLE."
    )
    flight_calls_caller: int = Field(
        8, gt=0, description="Of these, of one account, or one address without an account."
    )
    flight_batch_bytes: int = Field(
        14 * MIB,
        ge=1024,
        description="Longest batch of rows of an answer by Flight SQL; common clients take "
        "messages of 16 MiB. A row that is longer ends the answer.",
    )
    flight_idle_s: float = Field(
        60.0,
        gt=0,
        description="Seconds a client of Flight SQL may take none of its rows before their query "
        "is ended.",
    )
    signing_key: str | None = Field(
        None,
        repr=False,
        description="Ed25519 key that signs answers with a proof, 32 bytes in base64 or hex; "
        "none: proofs are answered 501.",
    )
    signing_key_file: Path | None = Field(
        None, description="A file with that key, instead of the key itself."
    )
    signing_keys_retired: tuple[str, ...] = Field(
        (),
        description="Public keys, as JSON of `did:key` texts, that signed earlier answers; they "
        "are published beside the key.",
    )
    events_listeners: int = Field(
        2_000,
        gt=0,
        description="Most clients that follow news or wait for a head at a time; more are "
        "answered 503.",
    )
    events_listeners_caller: int = Field(
        100,
        gt=0,
        description="Of these, of one account, or one address without an account; more are "
        "answered 429.",
    )
    events_keep_alive_s: float = Field(
        3.0,
        gt=0,
        le=60,
        description="Seconds of silence after which a stream of news says that it is there.",
    )
    events_idle_s: float = Field(
        30.0,
        gt=0,
        description="Seconds a client may take nothing of its stream of news before it is ended.",
    )
    events_poll_s: float = Field(
        1.0,
        gt=0,
        le=60,
        description="Seconds after which the log of head moves is read when no wake-up comes.",
    )
    events_max_wait_s: float = Field(
        60.0, ge=0, description="Most seconds a request may wait for another head of a dataset."
    )
    events_max_rows: int = Field(
        1_000, ge=0, description="Most rows one event of a stream carries; of more it has none."
    )
    events_max_row_bytes: int = Field(
        MIB, ge=1024, description="Most bytes these rows may have as JSON."
    )
    webhook_networks: tuple[IPvAnyNetwork, ...] = Field(
        (), description="Ranges webhooks may be delivered to, beside the public network."
    )
    webhook_threads: int = Field(
        16, ge=0, le=256, description="Webhooks this service delivers at a time; 0 = none."
    )
    webhook_timeout_s: float = Field(
        20.0, gt=0, le=120, description="Seconds a receiver of a webhook has to answer."
    )
    webhook_retry_s: tuple[PositiveFloat, ...] = Field(
        (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400),
        description="Seconds before a delivery that failed is tried again, as JSON, one number "
        "for each time; when none is left, the webhook is paused. Up to a tenth more is waited, "
        "by chance.",
    )
    webhook_old_secret_s: int = Field(86_400, ge=0, description="Seconds an old secret signs too.")
    webhook_poll_s: float = Field(
        1.0, gt=0, le=60, description="Seconds between two looks for webhooks that are due."
    )
    webhooks_account: int = Field(
        20, gt=0, description="Most webhooks an account may have at one dataset."
    )
    validate_pushed_derivatives: bool = Field(
        False,
        description="Whether a worker has to reproduce pushed executions before they count.",
    )
    validation_wait_s: float = Field(
        600.0, gt=0, description="Seconds a push waits for its blocks to be validated."
    )
    shutdown_s: int = Field(
        10, gt=0, description="Seconds open requests and workers get to end when the node stops."
    )
    access_log: bool = Field(
        False, description="Whether every request is logged; otherwise those that change something."
    )
    audit_keep_days: int = Field(
        400, gt=0, description="Days the audit log remembers who did what."
    )

    @field_validator("public_url")
    @classmethod
    def _with_scheme_and_slash(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not url.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return url if url.endswith("/") else url + "/"


def load_settings(**given: Any) -> Settings:
    """Settings from the environment; values given (not None) win. Raises as `read_settings`."""
    return read_settings(Settings, os.environ, given, more=OF_CLIENT)


def warn_of_old_names() -> None:
    """One warning, once the log is set up."""
    old_settings.warn_of_old_names(os.environ)
