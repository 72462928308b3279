"""A multi-tenant node: accounts own their names, privacy hides what exists."""

from __future__ import annotations

import pytest
from nodes import odf

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: alice/steps
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {kind: NdJson, schema: {fields: [{name: day, type: Date}, {name: steps, type: Int32}]}}
      merge: {kind: Append}
    - {kind: SetVocab, eventTimeColumn: day}
"""


def test_a_private_dataset_is_pushed_from_one_node_to_another_and_hidden_from_strangers(
    shared_node, node, tmp_path
):
    alice, bob = shared_node.token("alice"), shared_node.token("bob")
    manifest = tmp_path / "steps.yaml"
    manifest.write_text(MANIFEST)
    odf("dataset", "create", manifest, "--node", shared_node.url, ODF_NODE_TOKEN=alice)
    rows = tmp_path / "rows.ndjson"
    rows.write_text('{"day": "2024-05-01", "steps": 9000}\n{"day": "2024-05-02", "steps": 100}\n')
    url = f"{shared_node.url}/alice/steps"
    odf("ingest", rows, url, ODF_NODE_TOKEN=alice)

    odf("pull", f"odf+{url}", tmp_path / "mine", ODF_NODE_TOKEN=alice)
    odf("verify", tmp_path / "mine")
    odf("pull", f"odf+{url}", tmp_path / "x", expect=3)
    odf("pull", f"odf+{url}", tmp_path / "x", expect=3, ODF_NODE_TOKEN=bob)

    to_bob = f"odf+{shared_node.url}/bob/steps"
    odf("push", tmp_path / "mine", to_bob, expect=4, ODF_NODE_TOKEN=alice)
    # the id is alice's already
    odf("push", tmp_path / "mine", to_bob, expect=5, ODF_NODE_TOKEN=bob)

    theirs = ("--visibility", "public", "--token", node.token())
    odf("push", tmp_path / "mine", f"odf+{node.url}/steps", *theirs)
    odf("pull", f"{node.url}/steps", tmp_path / "copy")
    heads = {(tmp_path / name / "refs" / "head").read_text() for name in ("mine", "copy")}
    assert len(heads) == 1
    odf("verify", f"{node.url}/steps")
