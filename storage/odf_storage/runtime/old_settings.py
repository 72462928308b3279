"""Old names of settings, from before each program had a prefix; the next release removes them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from odf_protocol.errors import BadInput

from .logs import line

_LOG = logging.getLogger("odf.settings")

_NOW_SHARED = (
    "DATA",
    "PRIVATE_FILES",
    "DATABASE_URL",
    "OBJECTS_URL",
    "OBJECT_COPIES",
    "REHASH_S",
    "SECRETS_KEYS",
    "LOG_FORMAT",
    "LOG_LEVEL",
)
_NOW_OF_WORKERS = (
    "SPARK_MASTER",
    "SPARK_DRIVER_MEMORY",
    "DATAFUSION_MEMORY_BYTES",
    "DATAFUSION_PROCESS_BYTES",
    "QUERY_S",
    "QUERY_CPU_S",
    "MAX_QUERY_BYTES",
    "MAX_QUERY_TERMS",
    "MAX_QUERY_DEPTH",
    "ENGINES",
    "ENGINE_CONFINEMENT",
    "WARM_UP",
    "SCRATCH",
    "LEASE_S",
    "JOB_ATTEMPTS",
    "JOB_DEATHS",
    "JOB_S",
    "JOB_MEMORY_BYTES",
    "POLL_MS",
    "MAX_COLUMNS",
    "MAX_CELL_BYTES",
    "MAX_ROW_BYTES",
    "MAX_REJECTED_ROWS",
    "SLICE_ROWS",
    "SLICE_BYTES",
    "SLICE_THREADS",
    "MERGE_STATE_BYTES",
    "COMMIT_ATTEMPTS",
    "POLL_MAX_VANISH_PERCENT",
    "FETCH_NETWORKS",
    "FETCH_ROOTS",
    "FETCH_S",
    "MAX_FETCHED_BYTES",
    "MAX_FETCHES",
    "MAX_UNPACK_RATIO",
    "MAX_ARCHIVE_ENTRIES",
    "PIPE_COMMANDS",
    "PIPE_S",
    "TEMPLATE_VARIABLES",
    "TRANSFORM_MAX_ROWS",
    "TRANSFORM_MAX_BYTES",
    "TRANSFORM_S",
    "TRANSFORM_CACHE_BYTES",
    "RESET_DERIVATIVES_ON_DIVERGED_INPUT",
    "CONTAINER_RUNTIME",
    "CONTAINER_MEMORY",
    "CONTAINER_OPTIONS",
    "CONTAINER_PULL_S",
    "ENGINE_NETWORK",
    "METRICS_PORT",
)
RENAMED = {
    **{f"ODF_NODE_{name}": f"ODF_STORE_{name}" for name in _NOW_SHARED},
    **{f"ODF_NODE_{name}": f"ODF_WORKER_{name}" for name in _NOW_OF_WORKERS},
}
"""New names of settings by their old names."""


class SettingTwice(BadInput):
    """The environment has a setting under both its old and its new name."""


def by_new_names(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with names in capitals and old names replaced by new ones.

    Raises:
        SettingTwice: both an old name and its new name are set.
    """
    texts = {name.upper(): text for name, text in environ.items()}
    for old, new in RENAMED.items():
        if old in texts:
            if new in texts:
                raise SettingTwice(
                    f"{old} is the old name of {new}, and both are set; keep {new}",
                    setting=new,
                    old=old,
                )
            texts[new] = texts.pop(old)
    return texts


def warn_of_old_names(environ: Mapping[str, str]) -> None:
    """Log one warning that lists all old names in the environment, if there are any."""
    texts = {name.upper() for name in environ}
    found = [f"{old} -> {new}" for old, new in RENAMED.items() if old in texts]
    if found:
        event = "settings have new names; the next release refuses the old ones"
        _LOG.warning(line(event, renamed=", ".join(found)))
