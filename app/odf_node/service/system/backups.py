"""Backups on a schedule: one of the services of a node makes them, and notes what failed."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from odf_protocol.errors import NodeError
from odf_storage.datasets.backup.last import MOST_PROBLEM_CHARS, note_failed
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.environment import BaseSettings
from odf_storage.runtime.extras import app_version
from odf_storage.stores.ports.accounts import AuditEntry

from ..processes.follower import Stopping
from .recurring import RETRY_S, Recurring

if TYPE_CHECKING:
    from odf_storage.datasets.backup.make import BackupReport

DAY_S = 86_400.0
_log = logging.getLogger("odf.node")


class BackupSettings(BaseSettings):
    """Read from `ODF_BACKUP_…`."""

    PREFIX: ClassVar[str] = "ODF_BACKUP_"

    to: str | None = Field(
        None,
        min_length=1,
        description="Folder or bucket (s3://bucket/prefix) to which the node backs itself up on a "
        "schedule; none: it does not.",
    )
    every_s: float = Field(DAY_S, ge=60, description="Seconds from a backup to the next.")
    keep: int = Field(14, ge=1, description="How many of the newest backups are kept.")
    key: Path | None = Field(None, description="File with the key that seals the backups.")


class BackupRunner(Recurring):
    """Makes a backup whenever the newest one at the place is old enough, whoever made that.

    Services of one node look at the same place, where only one at a time may write.
    """

    def __init__(
        self,
        stores: Stores,
        settings: BackupSettings,
        *,
        target: str,
        data: Path,
        objects_url: str | None,
        clock: Clock,
    ) -> None:
        super().__init__("backups", stores, clock, settings.every_s)
        self._settings = settings
        self._target, self._data, self._objects_url = target, data, objects_url

    def _try(self) -> float:
        """Make a backup if it is due; return the seconds to the next attempt."""
        every_s = self._settings.every_s
        try:
            report = self._back_up()
        except Stopping:  # the next service goes on
            return every_s
        except Exception as error:
            code = error.code if isinstance(error, NodeError) else None
            if isinstance(error, NodeError) and code == "BackupNotDue":
                return min(every_s, float(str(error.facts["due_s"])))
            if code != "BackupRunning":
                self._fail(error)
            return min(every_s, RETRY_S)
        _log.info("backup %d is made, %d bytes written", report.number, report.bytes_written)
        self._record("done", number=report.number, missing=len(report.missing))
        return every_s

    def _back_up(self) -> BackupReport:
        # not needed to start, and most nodes are backed up by a command
        from odf_storage.datasets.backup.make import back_up
        from odf_storage.datasets.backup.place import open_place, read_key, refuse_own

        refuse_own(self._target, [*self._stores.folders(), self._data], self._objects_url)
        key = self._settings.key
        place = open_place(self._target, None if key is None else read_key(key))
        return back_up(
            self._stores,
            replace(place, clock=self._clock),
            version=app_version(),
            data=self._data,
            keep=self._settings.keep,
            every_s=self._settings.every_s,
            progress=self._go_on,
        )

    def _fail(self, error: Exception) -> None:
        is_told = isinstance(error, NodeError)
        problem = (
            error.message if isinstance(error, NodeError) else f"{type(error).__name__}: {error}"
        )
        _log.error("the backup failed: %s", problem, exc_info=None if is_told else error)
        problem = problem[:MOST_PROBLEM_CHARS]
        note_failed(self._stores.projections, self._clock(), problem)
        self._record("failed", problem=problem)

    def _record(self, outcome: str, **facts: object) -> None:
        done = AuditEntry(
            at=self._clock(),
            actor="node",
            action="backup",
            subject="ODF_BACKUP_TO",
            outcome=outcome,
            facts=facts,
        )
        self._stores.audit.record([done])
