"""Where the service listens, which addresses it gives, how it ends, what it logs.

Streams of news and webhooks.

Smart transfers, received slices, mirrors.
"""

from __future__ import annotations

from pydantic import Field, IPvAnyNetwork, PositiveFloat, field_validator

from odf_storage.runtime.environment import SharedSettings

from .words import MIB, Tenancy


class ListeningSettings(SharedSettings):
    """Where the service listens, which addresses it gives, how it ends, what it logs."""

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
    workers: int = Field(
        1, ge=0, le=64, description="Worker processes the service starts and keeps alive; 0 = none."
    )
    query_workers: int = Field(
        1,
        ge=0,
        le=64,
        description="Worker processes for queries of readers on Spark (`SqlSpark`), beside "
        "`workers`. They start when such a query waits, and end when none came for five minutes. "
        "0 = the other workers run these queries, too, which then may hold back posts; so it is by "
        "default where `ODF_WORKER_SPARK_MASTER` is a cluster, of which `ODF_WORKER_SPARK_CORES` "
        "does not say each worker's part.",
    )
    min_free_bytes: int = Field(
        256 * MIB,
        ge=0,
        description="Free space of the data folder below which readiness says `degraded`.",
    )
    shutdown_s: int = Field(
        10, gt=0, description="Seconds open requests and workers get to end when the node stops."
    )
    stall_ends_s: float = Field(
        60.0,
        ge=0,
        description="Seconds after which a service whose event loop stands still writes its stacks "
        "and ends, so that it is started again; 0 = never.",
    )
    compress_from_bytes: int = Field(
        1024,
        ge=0,
        description="Texts of so many bytes are compressed for clients that accept gzip; 0: none "
        "is, as where a proxy compresses.",
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


class NewsSettings(SharedSettings):
    """Streams of news and webhooks."""

    events_listeners: int = Field(
        2_000,
        gt=0,
        description="Most clients that follow news or wait for a head at a time; more are "
        "answered 503.",
    )
    webhook_networks: tuple[IPvAnyNetwork, ...] = Field(
        (), description="Ranges webhooks may be delivered to, beside the public network."
    )
    webhook_threads: int = Field(
        16, ge=0, le=256, description="Webhooks this service delivers at a time; 0 = none."
    )
    webhook_retry_s: tuple[PositiveFloat, ...] = Field(
        (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400),
        description="Seconds before a delivery that failed is tried again, as JSON, one number "
        "for each time; when none is left, the webhook is paused. Up to a tenth more is waited, "
        "by chance.",
    )


MIN_MESSAGE_BYTES = 64 * 1024


class TransferSettings(SharedSettings):
    """Smart transfers, received slices, mirrors."""

    ws_max_message_bytes: int = Field(
        64 * MIB,
        ge=MIN_MESSAGE_BYTES,
        description="Largest message of a push, in bytes; the reference peer sends up to 64 MiB, "
        "all blocks of a push in one.",
    )
    max_transfers: int = Field(
        128, gt=0, description="Most smart transfers open at a time; more are answered 503."
    )
    max_batch_bytes: int = Field(
        512 * MIB, gt=0, description="Most bytes of blocks in one smart transfer, uncompressed."
    )
    transfer_idle_s: float = Field(
        86_400.0,
        gt=0,
        description="Seconds a push may stay silent before it is ended, while it uploads.",
    )
    transfer_url_ttl_s: int = Field(
        3600,
        gt=0,
        description="Seconds a presigned transfer URL, a signed URL of the node, or keys of S3 "
        "clients for the files of a dataset stay valid.",
    )
    outgoing_s: float = Field(
        20.0,
        gt=0,
        le=120,
        description="Seconds another server may take to answer: the remote of a new mirror at the "
        "first look, the receiver of a webhook.",
    )
    mirror_networks: tuple[IPvAnyNetwork, ...] = Field(
        (), description="Ranges mirrors may pull from, beside the public network."
    )
    mirror_threads: int = Field(
        4, ge=0, le=64, description="Mirrors this service pulls at the same time; 0 = none."
    )
    slice_memory_bytes: int = Field(
        2048 * MIB,
        ge=256 * MIB,
        description="Memory of a process that looks at received slices, in bytes.",
    )
    rows_hashed_at_once_bytes: int | None = Field(
        None,
        ge=0,
        description="Largest slices of one push or pull, in bytes, whose rows are hashed before "
        "they count; of larger ones a job hashes them afterwards. None: rows are always hashed "
        "before.",
    )
    validate_pushed_derivatives: bool = Field(
        False,
        description="Whether a worker has to reproduce pushed executions before they count.",
    )
