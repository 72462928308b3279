"""Where the service listens, which addresses it gives, how it ends, what it logs."""

from __future__ import annotations

from pydantic import Field, field_validator

from odf_storage.runtime.shared_settings import SharedSettings

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
