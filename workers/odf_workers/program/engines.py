"""The engines of a worker, by name: those in its process, and those named in its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from ..engines.port.port import Engine
from ..engines.port.query_size import QuerySize
from ..settings import WorkerSettings, container_rules

OF_VERSION = "@"
"""Separates the name of an engine from its version, if there are several: `spark@3.5`."""
IMAGE = "image:"
"""Prefix of a setting's value that names an image; without it the value is an address."""


def _spark(settings: WorkerSettings, session: Any) -> Engine:
    from ..engines.spark_engine.engine import SparkEngine

    return SparkEngine(session, seconds=settings.query_s, size=query_size(settings))


def _datafusion(settings: WorkerSettings, _session: Any) -> Engine | None:
    from ..engines.datafusion.engine import DataFusionEngine, DataFusionLimits, installed_version

    if installed_version() is None:
        return None
    limits = DataFusionLimits(
        seconds=settings.query_s,
        cpu_seconds=ceil(settings.query_s),
        pool_bytes=settings.datafusion_process_bytes // 4,
        process_bytes=settings.datafusion_process_bytes,
        size=query_size(settings),
    )
    return DataFusionEngine(limits, confinement=settings.engine_confinement)


def query_size(settings: WorkerSettings) -> QuerySize:
    return QuerySize(bytes=settings.max_query_bytes)


IN_PROCESS: Mapping[str, Callable[[WorkerSettings, Any], Engine | None]] = {
    "spark": _spark,
    "datafusion": _datafusion,
}


def engines(settings: WorkerSettings, session: Any) -> tuple[Engine, ...]:
    """Return all engines; a configured engine replaces one of the same name in the process.

    Engines with a version in their name are last: they only repeat what that version computed.
    """
    names = [name.lower() for name in settings.engines]
    found = [configured(settings, name) for name in names if OF_VERSION not in name]
    named = {engine.name for engine in found}
    for name, make in IN_PROCESS.items():
        if name not in named and (engine := make(settings, session)) is not None:
            found.append(engine)
    found += [configured(settings, name) for name in names if OF_VERSION in name]
    return tuple(found)


def configured(settings: WorkerSettings, name: str) -> Engine:
    """Return an engine from the settings: at an address, or in an image."""
    from ..engines.remote.container import ContainerEngine, EngineRules
    from ..engines.remote.remote import RemoteEngine

    given = {key.lower(): value for key, value in settings.engines.items()}[name]
    name = name.partition(OF_VERSION)[0]
    if not given.startswith(IMAGE):
        return RemoteEngine(name, given, seconds=settings.query_s)
    rules = EngineRules(
        containers=container_rules(settings),
        network=settings.engine_network,
    )
    return ContainerEngine(name, given.removeprefix(IMAGE), rules, seconds=settings.query_s)
