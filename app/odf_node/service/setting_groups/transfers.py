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
        512, gt=0, description="Most smart transfers open at a time; more are answered 503."
    )
    max_transfers_caller: int = Field(
        32,
        gt=0,
        description="Most smart transfers one account, or one address without an account, may "
        "have open; more are answered 429.",
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
        description="Seconds a presigned transfer URL, or a signed URL of the node, stays valid.",
    )
    s3_keys_ttl_s: int = Field(
        3600,
        gt=0,
        le=43_200,
        description="Seconds that keys of S3 clients for the files of one dataset stay valid.",
    )
    mirror_networks: tuple[IPvAnyNetwork, ...] = Field(
        (), description="Ranges mirrors may pull from, beside the public network."
    )
    outgoing: int = Field(
        16,
        gt=0,
        description="Requests to servers of users (first looks of mirrors, addresses and pings of "
        "webhooks) that wait at the same time; more are refused with 429.",
    )
    outgoing_caller: int = Field(2, gt=0, description="The same, for one account.")
    mirror_look_s: float = Field(
        30.0,
        gt=0,
        description="Seconds that the first look at the remote of a new mirror may take.",
    )
    mirror_threads: int = Field(
        4, ge=0, le=64, description="Mirrors this service pulls at the same time; 0 = none."
    )
    mirror_poll_s: float = Field(
        2.0, gt=0, description="Seconds between two looks for mirrors that are to be pulled."
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
