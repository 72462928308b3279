"""Reads of rows, look-ups, shared tables and the processes that read for them.

Limits of requests: headers, bodies, uploads.
"""

from __future__ import annotations

from pydantic import Field

from odf_storage.runtime.environment import SharedSettings

from .words import MIB


class ReadSettings(SharedSettings):
    """Reads of rows, look-ups, shared tables and the processes that read for them."""

    max_read_bytes: int = Field(
        64 * 1024 * MIB,
        ge=1024,
        description="Most bytes answered by one read of rows; at that point the answer breaks off.",
    )
    iceberg_deleted_rows: int = Field(
        5_000_000,
        ge=0,
        description="Most rows taken back of one slice that are told to clients of Iceberg.",
    )
    turn_wait_s: float = Field(
        10.0, gt=0, description="Seconds a read or a query waits until it can run; then 429."
    )
    readers: int = Field(
        8,
        gt=0,
        description="Processes that read rows at a time for reads, as many for tails, and as many "
        "for look-ups; they are there only while they do. More wait a moment, then 503.",
    )
    reader_memory_bytes: int = Field(
        1024 * MIB,
        ge=64 * MIB,
        description="Memory of a process that reads rows, beyond what it starts with; more: 413.",
    )
    reader_silent_s: float = Field(
        300.0,
        gt=0,
        description="Seconds a process that reads rows may take until the next piece of its "
        "answer; more: 503, or the answer breaks off.",
    )


class RequestSettings(SharedSettings):
    """Limits of requests: headers, bodies, uploads."""

    max_upload_bytes: int = Field(
        50 * MIB, gt=0, description="Largest file uploaded to be ingested later, in bytes."
    )
    max_begun_bytes_account: int = Field(
        64 * 1024 * MIB,
        gt=0,
        description="Most bytes these objects may have, whole as they were announced; more are "
        "answered 429.",
    )
    max_body_bytes: int = Field(
        1024 * MIB, gt=0, description="Largest body of one ingest request, in bytes."
    )
    max_object_bytes: int = Field(
        16 * 1024 * MIB,
        gt=0,
        description="Largest data slice or checkpoint of an upload, in bytes.",
    )
    client_idle_s: float = Field(
        60.0,
        gt=0,
        description="Seconds a client may send nothing of its body, or take nothing of its rows or "
        "of its stream of news, before it is ended.",
    )
    max_bodies: int = Field(
        32,
        gt=0,
        description="Longer bodies received at once, those of posts and those of objects apart; "
        "others wait for their turn.",
    )
    max_unpacked_ratio: int = Field(
        200, gt=0, description="How often larger a compressed body may become when it is unpacked."
    )
