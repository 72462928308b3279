"""Reads the settings of a program from environment variables with the program's prefix.

`docs/decisions/packages.md` says which program reads which prefix, and why.

Former settings: old names, from before each program had a prefix, and settings that are gone.

An old name is understood in this release, and refused by the next. A setting that is gone is
refused: it may have been a limit that somebody lowered.

Settings that the service and its workers share, because both open the same stores.

Variables are named `ODF_STORE_` and the setting in capitals. Both programs derive their settings
from this class, with a prefix for each program.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo

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


def by_new_names(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with names in capitals and old names replaced by new ones.

    Raises:
        SettingTwice: both an old name and its new name are set.
    """
    texts = {name.upper(): text for name, text in environ.items()}
    for old, new in RENAMED.items():
        if old in texts:
            if new in texts:
                raise BadInput(
                    "SettingTwice",
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


LEVELS = ("critical", "error", "warning", "info", "debug")


class BaseSettings(BaseModel):
    """Settings that are read from variables of one prefix; immutable once read."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    PREFIX: ClassVar[str]


class SharedSettings(BaseSettings):
    """Settings of every program that uses the stores of a node."""

    PREFIX: ClassVar[str] = "ODF_STORE_"

    data: Path = Field(
        Path(".odf-node/data"), description="Folder of the local database, objects and spool files."
    )
    private_files: bool = Field(
        True,
        description="Whether other accounts of this machine are kept out of the data folder and of "
        "new files in it.",
    )
    database_url: str | None = Field(
        None, description="SQLAlchemy URL of the database; none means SQLite in the data folder."
    )
    objects_url: str | None = Field(
        None, description="Where objects are kept, such as s3://bucket/prefix; none: data folder."
    )
    object_copies: tuple[str, ...] = Field(
        (),
        description="Copies of the objects, as JSON: URLs as of `objects_url`, such as "
        "file:///backup. Damaged objects are healed from them; nothing is written there.",
    )
    publish_to: tuple[str, ...] = Field(
        (),
        description="Folders and buckets below which datasets may be published as files, as JSON: "
        "URLs such as file:///exports or s3://bucket/prefix. None: only the node serves them.",
    )
    rehash_s: float = Field(
        3600.0,
        ge=0,
        description="Seconds for which an object that was hashed counts as whole while its size, "
        "time and inode (in a bucket its ETag) stay the same; 0 hashes it at every read.",
    )
    secrets_keys: str | None = Field(
        None,
        repr=False,
        description="Keys of secrets of sources, 32 bytes in base64, separated by commas: the "
        "first seals, all open; none: one in the data folder.",
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="How log lines are written: `text`, or `json`, one object a line."
    )
    log_level: str = Field("info", description="Least severe log lines written: debug … critical.")

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, level: str) -> str:
        if level.lower() not in LEVELS:
            raise ValueError(f"must be one of {', '.join(LEVELS)}")
        return level.lower()


S = TypeVar("S", bound=BaseSettings)


def read_settings(
    kind: type[S],
    environ: Mapping[str, str],
    given: Mapping[str, Any],
    *,
    more: Iterable[str] = (),
) -> S:
    """Return a program's settings from the environment; values of `given` that are not None win.

    Args:
        more: variables with a prefix of the program that another reader of the environment knows.

    Raises:
        UnknownSetting: a variable with a prefix of the program is not a setting.
        SettingTwice: a setting is given under its old and its new name.
        InvalidSetting: a value is out of range or of the wrong type; the first such value.
    """
    texts = by_new_names(environ)
    names = variables(kind)
    _refuse_unknown(kind, texts, more)
    values = {
        name: _value(kind.model_fields[name], variable, texts[variable])
        for variable, name in names.items()
        if variable in texts
    }
    try:
        return kind(**values | {name: value for name, value in given.items() if value is not None})
    except ValidationError as broken:
        first = broken.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise BadInput(
            "InvalidSetting",
            f"setting {name} ({variable_of(kind, name)}): {first['msg']}",
            setting=name,
        ) from None


def variables(kind: type[BaseSettings]) -> dict[str, str]:
    """Map variables to settings, including the shared settings."""
    return {variable_of(kind, name): name for name in kind.model_fields}


def variable_of(kind: type[BaseSettings], name: str) -> str:
    is_shared = issubclass(kind, SharedSettings) and name in SharedSettings.model_fields
    return (SharedSettings if is_shared else kind).PREFIX + name.upper()


def example_lines(heading: str, kind: type[SharedSettings]) -> list[str]:
    """Return lines with meaning, name and default of each setting that the class declares."""
    inherited = () if kind is SharedSettings else SharedSettings.model_fields
    lines = [f"# {heading}"]
    for name, field in kind.model_fields.items():
        if name not in inherited:
            shown = f"#{variable_of(kind, name)}={_text(field.default)}"
            lines += ["", f"# {field.description}", shown]
    return lines


def _refuse_unknown(
    kind: type[BaseSettings], names: Iterable[str], more: Iterable[str] = ()
) -> None:
    """Refuse variables that begin with a prefix of the program but are not known.

    Raises:
        UnknownSetting: with the setting that took its place, or the most similar variable.
    """
    known = {*variables(kind), *more}
    prefixes = (kind.PREFIX, SharedSettings.PREFIX)[: 1 + issubclass(kind, SharedSettings)]
    for name in names:
        if name.startswith(prefixes) and name not in known:
            if name in GONE:
                place = GONE[name]
                instead = f"use {place} instead" if place else "its value is fixed now; remove it"
                message = f"the setting {name} is gone: {instead}"
                raise BadInput("UnknownSetting", message, setting=name, meant=place or None)
            meant = _alike(name, known | {*RENAMED.values()})
            guess = f"; did you mean {meant}?" if meant else "; see settings.example.env"
            raise BadInput(
                "UnknownSetting", f"there is no setting {name}{guess}", setting=name, meant=meant
            )


def _alike(name: str, known: set[str]) -> str | None:
    """Return the same name under another prefix, else the most similar name, or None."""
    bare = {each.split("_", 2)[2]: each for each in sorted(known)}
    near = get_close_matches(name.split("_", 2)[2], bare, n=1)
    return bare[near[0]] if near else None


def _value(field: FieldInfo, variable: str, text: str) -> Any:
    """Return the value of a variable; lists and tables are parsed as JSON."""
    if not isinstance(field.default, tuple | dict):
        return text
    try:
        return json.loads(text)
    except ValueError:
        form = '["one", "two"]' if isinstance(field.default, tuple) else '{"name": "value"}'
        raise BadInput(
            "InvalidSetting", f"{variable} is not JSON: it is written as {form}", setting=variable
        ) from None


def _text(default: Any) -> str:
    """Return a default as it is written in the environment: empty for None, JSON for a list."""
    return "" if default is None else "[]" if default == () else str(default)
