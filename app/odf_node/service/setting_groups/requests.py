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
    publish_look_bytes: int = Field(
        MIB, gt=0, description="Bytes of a file, unpacked, that the form to publish files looks at."
    )
    publish_look_s: float = Field(
        30.0,
        gt=0,
        description="Seconds that a process may take to look at such a file; more: 503.",
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
    upload_keep_s: int = Field(
        86_400, gt=0, description="Seconds an uploaded file is kept before it is cleared away."
    )
    max_body_bytes: int = Field(
        1024 * MIB, gt=0, description="Largest body of one ingest request, in bytes."
    )
    max_object_bytes: int = Field(
        16 * 1024 * MIB,
        gt=0,
        description="Largest data slice or checkpoint of an upload, in bytes.",
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
    max_unpacked_ratio: int = Field(
        200, gt=0, description="How often larger a compressed body may become when it is unpacked."
    )
