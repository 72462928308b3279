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
    events_listeners_caller: int = Field(
        100,
        gt=0,
        description="Of these, of one account, or one address without an account; more are "
        "answered 429.",
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
    webhook_poll_s: float = Field(
        1.0, gt=0, le=60, description="Seconds between two looks for webhooks that are due."
    )
