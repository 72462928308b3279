"""Cases of public reports about values that readers cannot take, with the files that came with
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.workers.datasets import bench_without_engine, created, upload
from tests.workers.derivatives import read
from throwaway import throwaway_stores

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import ReadStep, ReadStepNdJson, ReadStepParquet
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import IngestReceipt
from odf_storage.datasets.node.stores import Stores
from odf_workers.jobs.ingest.run import run_ingest
from odf_workers.slices.schema import BadRow

FILES = Path(__file__).parents[1] / "vectors/cases"
NOW = Instant.parse("2050-01-01T12:00:00Z")


class Posted:
    def __init__(self, folder: Path) -> None:
        self.stores: Stores = throwaway_stores()
        self.bench: Any = bench_without_engine(self.stores, folder)
        self.dataset: Dataset | None = None

    def post(self, name: str, step: ReadStep) -> IngestReceipt:
        self.dataset = created(self.stores, read=step)
        payload = upload(self.stores, self.dataset, (FILES / name).read_bytes())
        return run_ingest(self.dataset, payload, self.bench, now=NOW)

    def rows(self) -> list[dict[str, Any]]:
        assert self.dataset is not None
        return read(self.stores, self.dataset)


@pytest.fixture
def posted(tmp_path: Path) -> Posted:
    return Posted(tmp_path)


def test_case_02_text_that_is_no_utf8_is_refused_with_row_and_column(posted: Posted) -> None:
    with pytest.raises(BadRow, match="column `v`: row 1: a text that is no UTF-8"):
        posted.post("02-parquet-invalid-utf8/badutf8.parquet", ReadStepParquet())
    assert posted.rows() == []


def test_case_20_objects_without_members_are_refused_with_the_column(posted: Posted) -> None:
    with pytest.raises(BadInput, match=r"column `.*` holds nulls or empty objects only"):
        posted.post("20-json-empty-object/eo.ndjson", ReadStepNdJson())


def test_case_22_a_day_of_the_year_29349_is_refused_with_the_row(posted: Posted) -> None:
    with pytest.raises(BadRow, match="column `t`: row 1: a day outside of the years 1 to 9999"):
        posted.post("22-parquet-date-range/fardate.parquet", ReadStepParquet())
    assert posted.rows() == []


def test_case_31_a_column_of_nulls_is_text_with_a_remark(posted: Posted) -> None:
    receipt = posted.post("31-parquet-null-column/n.parquet", ReadStepParquet())
    assert "column `v` holds nulls only, and is stored as text" in receipt.warnings[0]
    assert [row["v"] for row in posted.rows()] == [None, None]


def test_case_31_a_declared_type_holds(posted: Posted) -> None:
    step = ReadStepParquet(ddl_schema=("id BIGINT", "v BIGINT"))
    assert posted.post("31-parquet-null-column/n.parquet", step).warnings == ()


def test_case_39_columns_that_differ_in_case_only_are_said(posted: Posted) -> None:
    receipt = posted.post("39-columns-by-case/case.parquet", ReadStepParquet())
    assert "columns `a` and `A` differ in case only" in receipt.warnings[0]
