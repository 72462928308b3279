"""Routes for operators: health, build information, metrics."""

from __future__ import annotations

import platform
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import code_of
from odf_storage.runtime.extras import app_version
from odf_storage.stores.index.sql import DatasetEntries

from ..http.answers import JsonAnswer
from ..http.deps import SettingsDep, StoresDep, wired
from ..observe.metrics import CONTENT_TYPE, Metrics, page
from ..processes.supervisor import WorkerHealth

WorkersDep = Annotated[WorkerHealth, Depends(wired(WorkerHealth))]
MetricsDep = Annotated[Metrics, Depends(wired(Metrics))]
Probe = Literal["liveness", "readiness", "startup"]

router = APIRouter(prefix="/system", tags=["system"])


@router.get("/health", summary="Liveness, readiness and startup checks")
async def health(
    stores: StoresDep,
    settings: SettingsDep,
    workers: WorkersDep,
    type: Probe = "liveness",  # noqa: A002
) -> Response:
    """Report the health of the node. Liveness needs only a response; readiness and startup also
    need the database.

    A node that cannot store anything, or whose workers do not start, still serves its data, so it
    is ready, but it reports `degraded`.
    """
    if type == "liveness":
        return JsonAnswer({"ok": True})
    try:
        await run_in_threadpool(touch_database, stores.registry)
    except Exception as failure:  # any error of the driver means "not ready"
        return JsonAnswer({"ok": False, "reason": type_name(failure)}, 503)
    trouble = await run_in_threadpool(stores.write_trouble)
    if trouble is not None:
        return JsonAnswer({"ok": True, "degraded": True, "writable": False, "reason": trouble})
    free, least = stores.free_bytes(), settings.min_free_bytes
    if free is not None and free < least:
        reason = f"the data folder has {free} bytes free, of {least} it should have"
        return JsonAnswer({"ok": True, "degraded": True, "writable": True, "reason": reason})
    dying = workers.trouble()
    if dying is not None:
        return JsonAnswer({"ok": True, "degraded": True, "writable": True, "reason": dying})
    return JsonAnswer({"ok": True})


@router.get("/info", summary="Build information")
async def info(settings: SettingsDep) -> Response:
    return JsonAnswer(
        {
            "appVersion": app_version(),
            "pythonVersion": platform.python_version(),
            "tenancy": settings.tenancy.value,
        }
    )


@router.get("/metrics", summary="Counts and durations, for Prometheus")
async def metrics(measured: MetricsDep) -> Response:
    """Return metrics of this process and of the node's queue in the text format of Prometheus."""
    return Response(await run_in_threadpool(page, measured), media_type=CONTENT_TYPE)


def touch_database(registry: DatasetEntries) -> None:
    registry.page(limit=1)


def type_name(failure: Exception) -> str:
    return f"database: {code_of(failure)}"
