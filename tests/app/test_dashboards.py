"""The dashboard and the rules for alarms ask for metrics and labels that a node has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from service import serving
from sharing_client import run_beside

from odf_workers.program.metrics import WorkerMetrics

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "helm" / "odf-node" / "observing"
PAGE = (ROOT / "docs" / "observing.md").read_text()
RUNBOOK = ROOT / "docs" / "alarms.md"
OF_PROMETHEUS = {"up": {"job", "instance"}}
OF_TARGETS = {"job", "instance", "le"}
"""Labels that Prometheus adds to all, and that of buckets."""
CONDITIONAL = {"odf_backup_age_seconds", "odf_log_checkpoint_age_seconds"}
"""Metrics that a new node has no value of."""
PARSES = """
import json, sys
import promql_parser as promql

def walk(node, found):
    if isinstance(node, promql.VectorSelector):
        found.append([node.name, sorted(each.name for each in node.matchers.matchers)])
    for name in ("lhs", "rhs", "expr", "vs", "vector_selector", "param"):
        below = getattr(node, name, None)
        if isinstance(below, promql.Expr):
            walk(below, found)
    for below in getattr(node, "args", None) or ():
        walk(below, found)
    return found

print(json.dumps([walk(promql.parse(each), []) for each in json.load(sys.stdin)]))
"""


def dashboard() -> Any:
    return json.loads((FOLDER / "dashboard.json").read_text())


def rules() -> list[Any]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return list(group["rules"])


def expressions() -> list[str]:
    shown = [each["expr"] for panel in dashboard()["panels"] for each in panel["targets"]]
    plain = [text.replace("$__rate_interval", "5m") for text in shown]
    return [*plain, *(rule["expr"] for rule in rules())]


def documented() -> dict[str, set[str]]:
    """The labels of each metric, by the page."""
    found: dict[str, set[str]] = {}
    for names, labels in re.findall(
        r"^\| ((?:`[^`|]+`(?:, )?)+) \| ([^|]*) \|", PAGE, re.MULTILINE
    ):
        for name in re.findall(r"`(odf_\w+)`", names):
            found[name] = set(re.findall(r"(?<!`)\b[a-z]+\b(?!`)", re.sub(r"\(.*?\)", "", labels)))
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("node")) as service, service.http() as http:
        yield http.get("/system/metrics").text + generate_latest(WorkerMetrics().registry).decode()


def test_every_expression_is_read_and_asks_for_a_metric_that_is_served(served, tmp_path: Path):
    families = set(re.findall(r"^# TYPE (\w+) ", served, re.MULTILINE)) | CONDITIONAL | {"up"}
    endings = r"_(?:bucket|count|sum)$"
    found = json.loads(run_beside(PARSES, tmp_path, given=json.dumps(expressions())))
    for text, selectors in zip(expressions(), found, strict=True):
        assert selectors, text
        for name, _ in selectors:
            assert {name, re.sub(endings, "", name)} & families, text


def test_labels_are_those_of_the_page(tmp_path: Path):
    worker = {"kind", "outcome", "way"}
    found = json.loads(run_beside(PARSES, tmp_path, given=json.dumps(expressions())))
    for text, selectors in zip(expressions(), found, strict=True):
        grouped = re.findall(r"by \(([^)]*)\)", text)
        labels = {word.strip() for words in grouped for word in words.split(",")}
        names = [re.sub(r"_bucket$", "", name) for name, _ in selectors]
        known = set(OF_TARGETS)
        for name in names:
            known |= worker if name.startswith("odf_worker_") else documented().get(name, set())
        asked = labels.union(*(matched for _, matched in selectors))
        assert asked <= known, text


def test_a_dashboard_has_a_panel_of_each_documented_concern():
    texts = " ".join(expressions())
    concerns = ("damaged_objects", "oldest_job_wait", "deeds_lost", "backup_age", "requests_total")
    assert [each for each in concerns if each not in texts] == []
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard()["panels"]]
    assert len(places) == len(set(places))
    sources = {each["datasource"]["uid"] for each in dashboard()["panels"]}
    assert sources == {"${datasource}"}


def test_an_alarm_says_what_happened_and_what_to_do():
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}
        assert rule["labels"]["severity"] in ("critical", "warning")
        shown = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        grouped = set(re.findall(r"by \((\w+)\)", rule["expr"]))
        assert shown <= (grouped or {"instance"}), rule["alert"]


def test_each_alarm_has_a_section_that_says_what_to_look_at_and_to_do():
    sections = RUNBOOK.read_text().split("\n## ")[1:]
    named = {text.split("\n", 1)[0]: text for text in sections}
    assert list(named) == [rule["alert"] for rule in rules()]
    for rule in rules():
        page, _, section = rule["annotations"]["runbook"].partition("#")
        assert (ROOT / page, section) == (RUNBOOK, rule["alert"].lower())
        assert {"**Means.**", "**Look.**", "**Do.**"} <= set(named[rule["alert"]].split())
