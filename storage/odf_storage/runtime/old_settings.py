"""Former settings: old names, from before each program had a prefix, and settings that are gone.

An old name is understood in this release, and refused by the next. A setting that is gone is
refused: it may have been a limit that somebody lowered.
"""

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
    "DATAFUSION_PROCESS_BYTES",
    "QUERY_S",
    "MAX_QUERY_BYTES",
    "ENGINES",
    "ENGINE_CONFINEMENT",
    "WARM_UP",
    "SCRATCH",
    "LEASE_S",
    "JOB_ATTEMPTS",
    "JOB_DEATHS",
    "JOB_S",
    "JOB_MEMORY_BYTES",
    "MAX_ROW_BYTES",
    "SLICE_ROWS",
    "SLICE_BYTES",
    "MERGE_STATE_BYTES",
    "POLL_MAX_VANISH_PERCENT",
    "FETCH_NETWORKS",
    "FETCH_ROOTS",
    "FETCH_S",
    "MAX_FETCHED_BYTES",
    "MAX_UNPACK_RATIO",
    "PIPE_COMMANDS",
    "TEMPLATE_VARIABLES",
    "TRANSFORM_MAX_ROWS",
    "TRANSFORM_MAX_BYTES",
    "TRANSFORM_CACHE_BYTES",
    "RESET_DERIVATIVES_ON_DIVERGED_INPUT",
    "CONTAINER_RUNTIME",
    "CONTAINER_OPTIONS",
    "ENGINE_NETWORK",
    "METRICS_PORT",
)
RENAMED = {
    **{f"ODF_NODE_{name}": f"ODF_STORE_{name}" for name in _NOW_SHARED},
    **{f"ODF_NODE_{name}": f"ODF_WORKER_{name}" for name in _NOW_OF_WORKERS},
}
"""New names of settings by their old names."""

_FIXED = (
    "BODY_MIN_BYTES_S",
    "BODY_PACE_S",
    "CLOSE_WAIT_S",
    "DEAD_ROWS_BYTES",
    "DEAD_ROWS_INDEX_ROWS",
    "DEVICE_CODE_GUESSES",
    "DEVICE_LOGINS_PER_ADDRESS",
    "DEVICE_LOGIN_TTL_S",
    "EVENTS_KEEP_ALIVE_S",
    "EVENTS_MAX_ROWS",
    "EVENTS_MAX_ROW_BYTES",
    "EVENTS_MAX_WAIT_S",
    "FLIGHT_BATCH_BYTES",
    "FLIGHT_MESSAGE_BYTES",
    "FOLLOW_DEBOUNCE_S",
    "GATEWAY_REWRITE_BYTES",
    "HEADER_WAIT_S",
    "ICEBERG_MEMORY_BYTES",
    "ICEBERG_SNAPSHOTS",
    "LEARNED_BOUNDS",
    "LOGIN_WINDOW_S",
    "MAX_ACCOUNT_TOKENS",
    "MAX_BATCH_BLOCKS",
    "MAX_BEGUN_UPLOADS",
    "MAX_BEGUN_UPLOADS_ACCOUNT",
    "MAX_DEVICE_LOGINS",
    "MAX_HEADERS",
    "MAX_HEADER_BYTES",
    "MAX_MANIFEST_BYTES",
    "MAX_PAGE",
    "MAX_SLICE_RATIO",
    "MAX_TAIL_BYTES",
    "MAX_TAIL_RECORDS",
    "MAX_UPLOADS",
    "MAX_URL_BYTES",
    "MIRROR_TURN_S",
    "OUTGOING",
    "PAGE_STATISTICS_CELLS",
    "PUBLISH_LOOK_BYTES",
    "PUBLISH_LOOK_S",
    "PULL_IDLE_S",
    "QUERY_MAX_DATASETS",
    "QUERY_REMEMBERED_SLICES",
    "QUERY_TEXT_DEPTH",
    "QUERY_TEXT_TERMS",
    "READ_HELD_BYTES",
    "READ_HELD_S",
    "REQUEST_KEY_TTL_S",
    "SHARING_NEW_FILES",
    "SLICE_CHECK_S",
    "TRANSFER_FIRST_S",
    "TRIAL_INPUT_ROWS",
    "TRIAL_MANIFESTS",
    "TRIAL_SAMPLE_BYTES",
    "TRIAL_SHOWN_ROWS",
    "TRIAL_WAIT_S",
    "UPLOAD_KEEP_S",
    "UPLOAD_PROGRESS_S",
    "VALIDATION_WAIT_S",
    "WEBHOOKS_ACCOUNT",
    "WEBHOOK_OLD_SECRET_S",
    "WS_FIRST_MESSAGE_BYTES",
    "WS_MAX_FRAMES",
    "WS_MAX_PULL_MESSAGE_BYTES",
)
_FIXED_OF_WORKERS = (
    "COMMIT_ATTEMPTS",
    "CONTAINER_PULL_S",
    "FETCH_LIST_BYTES",
    "FETCH_THREADS",
    "MAX_ARCHIVE_ENTRIES",
    "MAX_COLUMNS",
    "MAX_FETCHED_FILES",
    "MAX_FETCHES",
    "MAX_QUERY_DEPTH",
    "MAX_QUERY_TERMS",
    "MAX_REJECTED_ROWS",
    "PIPE_S",
    "POLL_MS",
    "QUERY_RESULTS",
    "SLICE_THREADS",
    "TRANSFORM_S",
)
_OF_ONE_CALLER = (
    "EVENTS_LISTENERS_CALLER",
    "FLIGHT_CALLS_CALLER",
    "MAX_BODIES_CALLER",
    "MAX_TRANSFERS_CALLER",
    "ONE_CALLER_TAKES_ALL",
    "OUTGOING_CALLER",
    "QUERY_PROCESSES_CALLER",
    "READERS_CALLER",
)
_REPLACED = {
    "BODY_IDLE_S": "CLIENT_IDLE_S",
    "EVENTS_IDLE_S": "CLIENT_IDLE_S",
    "EVENTS_POLL_S": "POLL_S",
    "FLIGHT_IDLE_S": "CLIENT_IDLE_S",
    "FOLLOW_POLL_S": "POLL_S",
    "INGEST_POLL_S": "POLL_S",
    "MIRROR_LOOK_S": "OUTGOING_S",
    "MIRROR_POLL_S": "POLL_S",
    "QUERY_POOL_BYTES": "QUERY_PROCESS_BYTES",
    "QUERY_WAIT_S": "TURN_WAIT_S",
    "READER_IDLE_S": "CLIENT_IDLE_S",
    "READER_WAIT_S": "TURN_WAIT_S",
    "S3_KEYS_TTL_S": "TRANSFER_URL_TTL_S",
    "SCHEDULE_TICK_S": "POLL_S",
    "WEBHOOK_POLL_S": "POLL_S",
    "WEBHOOK_TIMEOUT_S": "OUTGOING_S",
}
_REPLACED_OF_WORKERS = {
    "CONTAINER_MEMORY": "CONTAINER_OPTIONS",
    "DATAFUSION_MEMORY_BYTES": "DATAFUSION_PROCESS_BYTES",
    "MAX_CELL_BYTES": "MAX_ROW_BYTES",
    "QUERY_CPU_S": "QUERY_S",
}
_PREFIXES_OF_WORKERS = ("ODF_WORKER", "ODF_NODE")
"""The prefix of a worker's settings, and the one from before."""
GONE = {
    **{f"ODF_NODE_{name}": "" for name in _FIXED},
    **{f"ODF_NODE_{name}": "ODF_NODE_SHARE" for name in _OF_ONE_CALLER},
    **{f"ODF_NODE_{name}": f"ODF_NODE_{place}" for name, place in _REPLACED.items()},
    **{f"{prefix}_{name}": "" for prefix in _PREFIXES_OF_WORKERS for name in _FIXED_OF_WORKERS},
    **{
        f"{prefix}_{name}": f"ODF_WORKER_{place}"
        for prefix in _PREFIXES_OF_WORKERS
        for name, place in _REPLACED_OF_WORKERS.items()
    },
}
"""Settings that are gone, with the setting that has their place; none: the value is fixed."""


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
