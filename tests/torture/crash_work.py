"""What a child of the crash server does: open the stores, arm the crash point, work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from crash_points import CrashPoints
from scenarios import IN_A_BUCKET, SCENARIOS

from odf_storage.datasets.node.open_stores import StoreSettings, open_stores

Tell = Callable[[str, str], Any]
ALL = {**SCENARIOS, **IN_A_BUCKET}


def settings_of(stores: dict[str, Any]) -> StoreSettings:
    return StoreSettings(**{**stores, "data": Path(stores["data"])}, durable=False)


def run(request: dict[str, Any], tell: Tell) -> None:
    """One request: see `crash_server.py`."""
    points = CrashPoints(request["at"], lambda name: tell("step", name))
    points.install()
    stores = open_stores(settings_of(request["stores"]), migrate=False, repair=False)
    points.arm()
    ALL[request["scenario"]].work(stores, request["alias"], lambda text: tell("said", text))
    points.disarm()
    stores.close()
