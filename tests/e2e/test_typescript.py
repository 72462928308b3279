"""The package for npm publishes to a node with a worker; docs/typescript.md runs as printed."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from javascripts import NO_NODE, NODE, ROOT, Javascript, built
from nodes import RunningNode, served

import odf_node

pytestmark = pytest.mark.e2e

PAGE = ROOT / "docs" / "typescript.md"
SEEN = """
console.log(JSON.stringify({
  largest: largest.rows, again: again.rows, before: before.length, schema: schema.fields.length,
  held: (await node.check(largest.proof)).ok, added: receipt.rowsAdded, same: repeat.replayed,
  rows: await readings.rows({ columns: ["sensor"] }).all(), ok: found.ok, files: found.files,
}, (_, value) => typeof value === "bigint" ? `${value}` : value));
"""
READS = """
    const node = new odf.Node(given.url, given);
    const field = (name, type) => ({ name, type: { kind: "Option", inner: type } });
    const made = async (name) => {
      const place = field("place", { kind: "Struct", fields: [
        field("city", { kind: "String" }),
        field("codes", { kind: "List", itemType: { kind: "Option", inner: { kind: "Int64" } } }),
      ] });
      const fields = [
        field("id", { kind: "Int64" }), field("value", { kind: "Float64" }),
        field("price", { kind: "Decimal", precision: 30, scale: 10 }),
        field("seen", { kind: "Timestamp", unit: "Millisecond", timezone: "UTC" }), place,
      ];
      const read = { kind: "NdJson", schema: { fields } };
      const merge = { kind: "Append" };
      const source = { kind: "AddPushSource", sourceName: "default", read, merge };
      const content = { name, kind: "Root", metadata: [source] };
      await node.create({ kind: "DatasetSnapshot", version: 1, content });
      return node.dataset(name);
    };
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    data = tmp_path_factory.mktemp("typescript") / "node"
    with served(data, ODF_WORKER_WARM_UP="false") as running:
        yield running


@pytest.fixture
def run(javascript: Javascript, node: RunningNode) -> Javascript:
    def on_node(script: str, **given: Any) -> Any:
        return javascript(READS + script, url=node.url, token=node.token(), **given)

    return on_node


def named(name: str, javascript: Javascript) -> str:
    return f"{name}-{abs(hash(javascript))}"


def test_rows_that_are_published_are_read_back_with_all_digits_once(run, javascript):
    script = """
        const data = await made(given.name), wide = 2n ** 53n + 1n;
        const rows = [
          { id: wide, value: -0, price: "1234567890123456789.0123456789",
            seen: new Date("2026-01-02T03:04:05.678Z"),
            place: { city: "Oslo", codes: [1, null, -wide] } },
          { id: 1, value: 1e300, price: undefined, seen: null, place: null },
        ];
        async function* later() { for (const row of rows) yield row; }
        const named = { idempotencyKey: given.name };
        const first = await data.publish(later(), named);
        const again = await data.publish(rows, named);
        const other = await refused(() => data.publish([{ id: 2 }], named));
        const more = await data.publish([]);
        const columns = ["id", "value", "price", "seen", "place"];
        const found = await data.rows({ columns }).all();
        const signed = Object.is(found[0].value, -0);
        return [first, again, other, more.outcome, found, signed, (await data.verify()).ok];
    """
    first, again, other, more, rows, signed, whole = run(script, name=named("read", javascript))
    assert (first["rowsAdded"], first["replayed"], again["replayed"]) == (2, False, True)
    assert again["head"] == first["head"]
    assert (other["code"], other["status"]) == ("RequestKeyReused", 422)
    assert more == "up-to-date"
    wide = 2**53 + 1
    place = {"city": "Oslo", "codes": [1, None, {"bigint": str(-wide)}]}
    assert rows[0] == {
        "id": {"bigint": str(wide)},
        "value": 0,
        "price": "1234567890123456789.0123456789",
        "seen": "2026-01-02T03:04:05.678Z",
        "place": place,
    }
    assert rows[1] == {"id": 1, "value": 1e300, "price": None, "seen": None, "place": None}
    assert signed
    assert whole


def test_rows_that_a_node_refuses_change_nothing(run, javascript):
    script = """
        const data = await made(given.name), head = await data.head();
        const calls = [
          () => data.publish([{ id: 1 }, { id: "x" }]),
          () => data.post("id\\n1\\n", "text/nothing"),
          () => data.publish([{ id: 1 }], { expectedHead: "f1620" + "0".repeat(64) }),
          () => data.publish([{ id: 1 }], { sourceName: "other" }),
        ];
        const found = [];
        for (const call of calls) found.push(await refused(call));
        const tried = await data.publish([{ id: 1 }], { dryRun: true });
        return [found, tried.dryRun, head === await data.head()];
    """
    found, tried, same = run(script, name=named("refused", javascript))
    assert all(each["name"] == "OdfError" and 400 <= each["status"] < 500 for each in found)
    assert "x" in found[0]["message"]
    assert tried
    assert same


def test_rows_enter_once_though_every_answer_is_lost(run, javascript):
    script = """
        const data = await made(given.name), sent = [];
        const losing = async (url, init) => {
          const answer = await fetch(url, init);
          if (!url.includes("/ingest")) return answer;
          if (sent.push(init.headers.get("idempotency-key")) > 2) return answer;
          await answer.text();
          if (sent.length === 1) throw new TypeError("the connection broke");
          return new Response("bad gateway", { status: 502 });
        };
        const there = odf.open(data.url, { ...given, fetch: losing });
        const receipt = await there.publish([{ id: 1 }]);
        const { records } = await data.describe();
        return [receipt.replayed, new Set(sent).size, sent.length, records];
    """
    assert run(script, name=named("once", javascript)) == [True, 1, 3, 1]


def test_a_post_that_the_node_goes_on_with_is_waited_for(run, javascript):
    script = """
        const data = await made(given.name);
        const impatient = async (url, init) => {
          if (url.includes("/ingest")) init.headers.set("prefer", "respond-async");
          return await fetch(url, init);
        };
        const there = odf.open(data.url, { ...given, fetch: impatient });
        const receipt = await there.publish([{ id: 1 }]);
        const bad = await refused(() => there.publish([{ id: "x" }]));
        const signal = AbortSignal.timeout(1);
        const gone = await refused(() => there.publish([{ id: 2 }], { signal }));
        return [receipt.rowsAdded, bad, gone.name];
    """
    added, bad, gone = run(script, name=named("later", javascript))
    assert (added, gone) == (1, "TimeoutError")
    assert (bad["name"], bad["code"]) == ("OdfError", "BadRow")


@pytest.mark.skipif(NODE is None, reason=NO_NODE)
def test_the_blocks_of_the_page_run(node: RunningNode, tmp_path: Path) -> None:
    rows = [{"city": "Oslo", "population": 717}, {"city": "Bergen", "population": 291}]
    odf_node.publish(rows, f"{node.url}/cities", token=node.token())
    blocks = re.findall(r"```js\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 5
    built(tmp_path / "node_modules" / "odf-node")
    text = "".join(blocks).replace("http://127.0.0.1:8080", node.url)
    (tmp_path / "page.mjs").write_text(text + SEEN)
    done = subprocess.run(
        [str(NODE), "page.mjs"],
        cwd=tmp_path,
        env={"ODF_NODE_TOKEN": node.token()},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert json.loads(last) == {
        "largest": [{"city": "Oslo"}],
        "again": [{"n": 2}],
        "before": 2,
        "schema": 6,
        "held": True,
        "added": 1,
        "same": True,
        "rows": [{"sensor": str(2**64 - 1)}],
        "ok": True,
        "files": 1,
    }
    assert said[0] == "cities 2"
    assert "Oslo 717" in said
    assert said[-1] == "InvalidQuery 400 1"
