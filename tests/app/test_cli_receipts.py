"""What the command line says of receipts and of definitions that were taken."""

from __future__ import annotations

import pytest

from odf_node.cli.datasets.datasets import print_findings
from odf_node.cli.datasets.ingest import media_type_of
from odf_node.cli.datasets.refresh import refresh_text
from odf_node.cli.datasets.schedules import run_line
from odf_node.cli.shell.asking import receipt_text

RECEIPT = {
    "outcome": "updated",
    "rowsRead": 2,
    "rowsAdded": 2,
    "head": "f1620aa",
    "warnings": ["columns are taken by position: `a` as `b`", "with \x1b[2J a cursor"],
}


def test_warnings_have_a_line_each_and_move_no_cursor() -> None:
    lines = receipt_text(RECEIPT).splitlines()
    assert lines[-2] == "warning: columns are taken by position: `a` as `b`"
    assert lines[-1].startswith("warning: with")
    assert "\x1b" not in lines[-1]
    assert refresh_text(RECEIPT).count("warning: ") == 2


def test_a_job_in_a_list_tells_dry_runs_and_warnings() -> None:
    job = {"submittedAt": "t", "id": "1", "kind": "ingest", "status": "succeeded"}
    line = run_line({**job, "result": RECEIPT, "dryRun": True})
    assert line.endswith("dry run: updated, 2 warning(s)")


def test_packed_files_are_what_is_in_them() -> None:
    for name in ("rows.csv", "rows.csv.gz", "rows.CSV.zip"):
        assert media_type_of(name) == "text/csv"
    assert media_type_of("rows.arrows") == "application/vnd.apache.arrow.stream"


def test_what_the_node_says_of_a_definition_is_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_findings({"warnings": ["columns `a` and `A` differ in case only"]})
    assert capsys.readouterr().out == "warning: columns `a` and `A` differ in case only\n"


def test_a_query_that_was_not_tried_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = {"outcome": "unknown", "reason": "nothing tells the columns"}
    print_findings({"transform": unknown, "sources": {"default": {"outcome": "valid"}}})
    assert capsys.readouterr().out == (
        "warning: the transform was not tried: nothing tells the columns\n"
    )
