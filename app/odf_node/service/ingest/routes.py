"""The declaration of the ingest route for the framework; `IngestEndpoint` serves it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from ..transfer.routes import in_front
from .asked import IngestQuery


def add_ingest(router: APIRouter, prefix: str) -> None:
    """Declare the ingest route below the dataset addresses."""
    router.post(prefix + "/ingest", summary="Post records to a push source", tags=["ingest"])(
        ingest
    )


async def ingest(
    query: Annotated[IngestQuery, Query()],  # noqa: ARG001
    event_time: Annotated[str | None, Header(alias="odf-event-time")] = None,  # noqa: ARG001
    idempotency_key: Annotated[str | None, Header(alias="idempotency-key")] = None,  # noqa: ARG001
    prefer: Annotated[str, Header()] = "",  # noqa: ARG001
) -> Response:
    """Return the receipt once the batch is committed, 202 with the job if that takes too long."""
    return await in_front()
