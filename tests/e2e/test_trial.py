"""A dry run on a real node: a sample, and a query of Spark that keeps state."""

from __future__ import annotations

import pytest
from backends import ON_FILES
from nodes import odf

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.parametrize("pair", ON_FILES[:1], indirect=True),
]

MANIFESTS = """\
kind: DatasetSnapshot
version: 1
content:
  name: tried-days
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: tried-hours}]
      transform:
        kind: Sql
        engine: spark
        query: |
          select date_trunc('DAY', event_time) as event_time, max(degrees) as warmest
          from `tried-hours` group by date_trunc('DAY', event_time)
---
kind: DatasetSnapshot
version: 1
content:
  name: tried-hours
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {kind: Csv, header: true, ddlSchema: [event_time TIMESTAMP, degrees BIGINT]}
      merge: {kind: Append}
"""
ROWS = """\
event_time,degrees
2025-01-01T06:00:00Z,3
2025-01-01T12:00:00Z,17
2025-01-02T06:00:00Z,5
2025-01-03T06:00:00Z,4
"""


def test_days_are_computed_of_hours_that_are_on_no_node_yet(node, tmp_path):
    manifests, sample = tmp_path / "both.yaml", tmp_path / "hours.csv"
    manifests.write_text(MANIFESTS)
    sample.write_text(ROWS)
    words = ("dataset", "create", manifests, "--node", node.url, "--token", node.token())
    done = odf(*words, "--dry-run", "--sample", sample)
    assert "tried-days (Derivative) would be created" in done.stdout
    assert "2025-01-01T00:00:00Z  17" in done.stdout
    sample.write_text(ROWS.replace(",5\n", ",five\n"))
    wrong = odf(*words, "--dry-run", "--sample", sample, expect=2)
    assert "tried-hours: line 4" in wrong.stderr
    with node.http(node.token()) as client:
        assert client.get("/tried-hours").status_code == 404
