"""A dataset in a trial: its known properties, and a file of some of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.arrow_schema import to_arrow
from odf_protocol.chain.state import ChainState
from odf_protocol.codec.manifests import to_data
from odf_protocol.metadata.schema import DataSchema
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.trial_job import TrialOutcome
from odf_storage.datasets.read.records import DataFormat, shaped

from ...engines.port.port import Engine
from ...slices.write import parquet_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A dataset of the node, or one that a manifest describes."""

    dataset: Dataset
    state: ChainState
    schema: DataSchema | None = None
    """Schema of its slices; None if it is not known yet."""
    reason: str | None = None
    """Reason why the schema is not known."""
    rows: pa.Table | None = None
    """Rows of its slices, from offset 0; None if it has none for a trial."""
    rows_read: int | None = None
    warnings: tuple[str, ...] = field(default=())
    engine: Engine | None = None

    def outcome(self, shown_rows: int) -> TrialOutcome:
        """Return the result of the trial for the requester."""
        rows = None if self.rows is None else self.rows.slice(0, shown_rows)
        return TrialOutcome(
            alias=str(self.dataset.entry.alias),
            schema=None if self.schema is None else to_data(self.schema),
            reason=self.reason,
            rows=tuple(shaped(rows, DataFormat.AOS)),
            rows_read=self.rows_read,
            rows_made=None if self.rows is None else self.rows.num_rows,
            warnings=self.warnings,
            engine=None if self.engine is None else self.engine.name,
            engine_version=None if self.engine is None else self.engine.version,
        )

    def write_rows(self, path: Path) -> None:
        """Write the rows to a file that an engine can read."""
        if self.rows is not None and self.schema is not None:
            arrow = to_arrow(self.schema)
            pq.write_table(self.rows.cast(arrow), path, **parquet_settings(arrow))
