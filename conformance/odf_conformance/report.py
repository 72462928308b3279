"""Reports of a run: lines for a terminal, one JSON document, JUnit XML, one page of HTML."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any
from xml.etree import ElementTree

from .run import CheckOutcome, ConformanceReport, Status

MARKS = {Status.PASSED: "ok  ", Status.FAILED: "FAIL", Status.LEFT_OUT: "-   "}
MAX_REASON = 400


def line_of(outcome: CheckOutcome) -> str:
    """Return a line for one check, and a second line if there is a reason."""
    text = f"  {MARKS[outcome.status]} {outcome.check.id:<8} {outcome.check.sentence}"
    return f"{text}\n{'':16}{reason_of(outcome)}" if outcome.reason else text


def reason_of(outcome: CheckOutcome) -> str:
    """Return the reason as one printable line of limited length, because it may quote the node."""
    shown = "".join(char if char.isprintable() else " " for char in outcome.reason)
    return shown if len(shown) <= MAX_REASON else shown[: MAX_REASON - 3] + "..."


def verdict(report: ConformanceReport) -> str:
    """Return the last lines: whether the node conforms, and how many datasets remain on it."""
    passed, failed, left_out = (len(report.of(status)) for status in Status)
    word = "conforms" if report.ok else "does NOT conform"
    lines = [f"{report.url} {word}: {passed} passed, {failed} failed, {left_out} left out"]
    if report.left_behind:
        count = len(report.left_behind)
        lines.append(f"{count} dataset(s) named conformance-… stay on the node, it cannot delete")
    return "\n".join(lines)


def text_of(report: ConformanceReport) -> str:
    """Return the whole report as text, by groups."""
    parts = [
        "\n".join([group, *(line_of(outcome) for outcome in outcomes)])
        for group, outcomes in report.groups()
    ]
    return "\n\n".join([*parts, verdict(report)])


def data_of(report: ConformanceReport) -> dict[str, Any]:
    """Return the report as JSON-compatible data."""
    return {
        "url": report.url,
        "ok": report.ok,
        "passed": len(report.of(Status.PASSED)),
        "failed": len(report.of(Status.FAILED)),
        "leftOut": len(report.of(Status.LEFT_OUT)),
        "checks": [
            {
                "scenarios": outcome.check.id.split(),
                "group": outcome.group,
                "title": outcome.check.sentence,
                "status": outcome.status.value,
                "reason": reason_of(outcome) or None,
                "seconds": round(outcome.seconds, 3),
            }
            for outcome in report.outcomes
        ],
        "leftBehind": report.left_behind,
    }


def junit_of(report: ConformanceReport) -> bytes:
    """Return the report as JUnit XML, with a suite for each group and a case for each check."""
    root = ElementTree.Element("testsuites", name="ODF conformance")
    for group, outcomes in report.groups():
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=group,
            tests=str(len(outcomes)),
            failures=str(sum(one.status is Status.FAILED for one in outcomes)),
            skipped=str(sum(one.status is Status.LEFT_OUT for one in outcomes)),
            errors="0",
            time=f"{sum(one.seconds for one in outcomes):.3f}",
        )
        for outcome in outcomes:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"conformance.{group}",
                name=f"{outcome.check.id} {outcome.check.sentence}",
                time=f"{outcome.seconds:.3f}",
            )
            if outcome.status is not Status.PASSED:
                tag = "failure" if outcome.status is Status.FAILED else "skipped"
                ElementTree.SubElement(case, tag, message=reason_of(outcome))
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content


STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
body{color:#1b1f24}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.verdict{padding:.75rem 1rem;border-radius:.5rem;margin:1rem 0;font-weight:600}
.good{background:#e3f5e8;color:#0f5323}.bad{background:#fde7e7;color:#8a1414}
table{width:100%;border-collapse:collapse}
td{padding:.35rem .5rem;border-top:1px solid #e4e7eb;vertical-align:top}
td.id{white-space:nowrap;color:#5b6571;font-variant-numeric:tabular-nums;width:5rem}
td.status{white-space:nowrap;width:5.5rem;font-weight:600}
.passed .status{color:#0f7a32}.failed .status{color:#b3261e}
.left .status{color:#5b6571;font-weight:400}
.reason{display:block;color:#5b6571;font-size:.875rem;overflow-wrap:anywhere}
.failed .reason{color:#8a1414}
@media (prefers-color-scheme:dark){body{background:#14171a;color:#e6e8eb}
td{border-color:#2c3238}.good{background:#12351f;color:#a6e3b8}.bad{background:#431818;color:#f3b5b5}
td.id,.reason,.left .status{color:#98a2ad}.passed .status{color:#6fcf8d}
.failed .status,.failed .reason{color:#f09a94}}
"""


def page_of(report: ConformanceReport) -> str:
    """Return the report as one HTML page that loads no other files."""
    passed, failed, left_out = (len(report.of(status)) for status in Status)
    word = "conforms" if report.ok else "does not conform"
    counts = f"{passed} passed, {failed} failed, {left_out} left out"
    url = escape(report.url)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>ODF conformance of {url}</title><style>{STYLE}</style></head><body>"
        f"<h1>ODF conformance</h1><div>{url}</div>"
        f'<div class="verdict {"good" if report.ok else "bad"}">This node {word}: {counts}.</div>'
        f"{''.join(_sections(report))}</body></html>\n"
    )


def _sections(report: ConformanceReport) -> Iterator[str]:
    for group, outcomes in report.groups():
        rows = "".join(_row(outcome) for outcome in outcomes)
        yield f"<section><h2>{escape(group)}</h2><table>{rows}</table></section>"


def _row(outcome: CheckOutcome) -> str:
    reason = reason_of(outcome)
    more = f'<span class="reason">{escape(reason)}</span>' if reason else ""
    return (
        f'<tr class="{outcome.status.value.split()[0]}"><td class="id">{outcome.check.id}</td>'
        f'<td class="status">{outcome.status.value}</td>'
        f"<td>{escape(outcome.check.sentence)}{more}</td></tr>"
    )
