"""All settings of the service, and the only code that reads them from the environment.

A variable is `ODF_NODE_` and the name of the setting in capitals. The settings that workers share
are in `odf_storage/runtime/environment.py`. Unknown variables are refused, so that a misspelt
limit is noticed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import ceil
from typing import Any, ClassVar, TypeVar

from odf_protocol.errors import BadInput
from odf_storage.runtime import environment
from odf_storage.runtime.environment import BaseSettings, read_settings, variable_of

from ..client.nodes.home import VARIABLES as OF_CLIENT
from .setting_groups.listening import ListeningSettings, NewsSettings, TransferSettings
from .setting_groups.queries import BatchSettings, CallerSettings, QuerySettings
from .setting_groups.reads import ReadSettings, RequestSettings

S = TypeVar("S", bound=BaseSettings)


class Settings(
    NewsSettings,
    QuerySettings,
    ReadSettings,
    BatchSettings,
    TransferSettings,
    RequestSettings,
    CallerSettings,
    ListeningSettings,
):
    """The settings of the service, frozen after reading; the bases are listed in reverse order."""

    PREFIX: ClassVar[str] = "ODF_NODE_"

    def share_of(self, whole: int) -> int:
        """Return how much of a pool one caller may hold."""
        return ceil(round(self.share * whole, 6))


POOLS = (
    "query_processes",
    "readers",
    "max_bodies",
    "max_transfers",
    "events_listeners",
    "flight_calls",
)
"""What all callers together may hold; each of them holds a share."""


def load_settings(**given: Any) -> Settings:
    """Read the settings from the environment; given values (not None) win.

    Raises the same errors as `read_settings`, and `InvalidSetting` if one caller may take all.
    """
    settings = read_settings(Settings, os.environ, given, more=OF_CLIENT)
    for each in POOLS:
        whole = getattr(settings, each)
        if settings.share < 1 and settings.share_of(whole) >= whole:
            raise BadInput(
                "InvalidSetting",
                f"a share of {settings.share} of {variable_of(Settings, each)}={whole}, rounded "
                "up, is all: one caller could hold all; raise the number, or set "
                "ODF_NODE_SHARE=1 to allow this",
                setting=each,
            )
    if "query_workers" not in settings.model_fields_set and _takes_a_cluster(os.environ):
        return settings.model_copy(update={"query_workers": 0})
    return settings


def load_settings_of(kind: type[S]) -> S:
    """Read the settings of a feature. Raises the same errors as `read_settings`."""
    return read_settings(kind, os.environ, {})


def _takes_a_cluster(environ: Mapping[str, str]) -> bool:
    """Return whether a worker takes all cores of a Spark cluster: a second one would wait."""
    master = environ.get("ODF_WORKER_SPARK_MASTER", "local")
    return not master.startswith("local") and "ODF_WORKER_SPARK_CORES" not in environ


def warn_of_old_names() -> None:
    """Log one warning about old names of variables; call this after the log is set up."""
    environment.warn_of_old_names(os.environ)
