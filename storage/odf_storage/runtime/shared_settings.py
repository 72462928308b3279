"""Settings that the service and its workers share, because both open the same stores.

Variables are named `ODF_STORE_` and the setting in capitals. Both programs derive their settings
from this class, with a prefix for each program.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

LEVELS = ("critical", "error", "warning", "info", "debug")


class SharedSettings(BaseModel):
    """Settings of every program that uses the stores of a node; immutable once read."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

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
