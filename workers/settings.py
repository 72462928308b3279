"""The worker's settings: the only reader of its environment.

Prefix `ODF_NODE_`; names are shared with the service where both need the same thing.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class WorkerSettings(BaseSettings):
    """Everything a worker can be told. Unknown names under the prefix belong to the service."""

    model_config = SettingsConfigDict(
        env_prefix="ODF_NODE_", env_nested_delimiter="__", frozen=True, extra="ignore"
    )

    data: Path = Field(Path("data"), description="Directory of the local database and objects.")
    database_url: str | None = Field(None, description="Database; default SQLite under `data`.")
    objects_url: str | None = Field(
        None, description="Object store (`s3://bucket/prefix`); default files under `data`."
    )
    spark_master: str = Field("local[2]", description="Spark master URL.")
    spark_driver_memory: str = Field("1g", description="Heap of the Spark driver.")
    scratch: Path | None = Field(
        None, description="Where jobs keep temporary files; default: the system's temporary folder."
    )
    lease_s: float = Field(30.0, gt=0, description="How long a claimed job is ours without a sign.")
    poll_ms: int = Field(40, gt=0, description="Longest pause between looks at an empty queue.")
    max_columns: int = Field(2_000, gt=0, description="Most columns a batch may have.")
    max_cell_bytes: int = Field(16 << 20, gt=0, description="Longest single value.")
    max_row_bytes: int = Field(32 << 20, gt=0, description="Longest single record.")
    commit_attempts: int = Field(
        5, gt=0, description="How often a batch is planned again when another writer was first."
    )
    allow_empty_snapshot: bool = Field(
        False, description="Whether an empty snapshot may retract every row of a dataset."
    )
    log_level: str = Field("INFO", description="Least severe level that is logged.")
