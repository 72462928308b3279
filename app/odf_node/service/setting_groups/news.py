"""Streams of news and webhooks."""

from __future__ import annotations

from pydantic import Field, IPvAnyNetwork, PositiveFloat

from odf_storage.runtime.shared_settings import SharedSettings


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
