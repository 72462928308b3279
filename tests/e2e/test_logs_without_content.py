"""The log of a node says kinds of errors and places, and no posted values and no queries."""

from __future__ import annotations

import json

import pytest
from nodes import odf, served
from servers import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

SECRET = "s3cr3t4711"
MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: notes
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {kind: NdJson, schema: {fields: [{name: day, type: Date}, {name: note, type: String}]}}
      merge: {kind: Append}
    - {kind: SetVocab, eventTimeColumn: day}
"""
QUERIES = (
    f"select '{SECRET}' as x frm notes",
    f"select {SECRET} from notes",
    "select cast(note as int) as n from notes",
    f"select assert_true(note = '', '{SECRET}') as n from notes",
    f"select sum(cast(concat(note, '{SECRET}') as int)) as n from notes group by day",
    f"select to_date(note, '{SECRET}') as n from notes",
)


@pytest.mark.parametrize("form", ["text", "json"])
def test_logs_have_no_values_and_no_queries(form, tmp_path):
    settings = {"ODF_WORKER_WARM_UP": "false", "ODF_STORE_LOG_FORMAT": form}
    with served(tmp_path / "node", **settings) as node:
        token = node.token()
        manifest = tmp_path / "notes.yaml"
        manifest.write_text(MANIFEST)
        odf("dataset", "create", manifest, "--node", node.url, ODF_NODE_TOKEN=token)
        with node.http(token) as api:
            good = api.post(
                "/notes/ingest", content=f'{{"day": "2024-05-01", "note": "{SECRET}"}}\n'
            )
            assert good.status_code == 200, good.text
            bad = api.post("/notes/ingest", content=f'{{"day": "{SECRET}", "note": "x"}}\n')
            assert bad.status_code == 400, bad.text
            assert SECRET in bad.text  # for its sender
            for query in QUERIES:
                asked = api.post("/query", json={"query": query, "queryDialect": "SqlSpark"})
                if asked.status_code == 202:
                    job = f"/jobs/{asked.json()['job']}"
                    wait_until(
                        lambda job=job: api.get(job).json()["status"] in ("failed", "succeeded"),
                        "the query",
                    )
                assert api.get("/jobs").status_code == 200
    log = (tmp_path / "node.log").read_text()
    assert log.count("job failed") >= 5, log
    for told in ("BadRow", "InvalidQuery", "SparkNumberFormatException"):
        assert told in log
    if form == "json":  # and the lines of the JVM are lines of the log, too
        told = [json.loads(each) for each in log.splitlines() if each.startswith("{")]
        assert [each for each in told if "SparkRuntimeException" in each.get("exception", "")]
    found = [each for each in log.splitlines() if SECRET in each]
    assert not found, "\n".join(found)
