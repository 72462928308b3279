"""Limits of requests: headers, bodies, uploads."""

from __future__ import annotations

from pydantic import Field

from odf_storage.runtime.shared_settings import SharedSettings

from .words import MIB


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
