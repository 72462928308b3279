"""Smart transfers, received slices, mirrors."""

from __future__ import annotations

from pydantic import Field, IPvAnyNetwork

from odf_storage.runtime.shared_settings import SharedSettings

from .words import MIB

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
