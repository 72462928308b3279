"""One request of a command to a node, and how its response is said: lines, receipts, progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from odf_protocol.errors import BadInput

from ...client.nodes.home import HOME
from ...client.nodes.http import open_http
from ...client.nodes.limits import one_line
from ...client.nodes.node_api import REPLAYED, NodeApi, Seen
from ...client.nodes.remotes import Location
from .output import print_json

Step = Callable[[str, int, int], None]


def job_progress(step: Step | None) -> Seen | None:
    """Return a function that reports the progress of a job to `step`, or None without `step`.

    It reports the phase of the job, or its status before the first phase.
    """
    if step is None:
        return None

    def seen(job: dict[str, Any]) -> None:
        progress = job.get("progress") or {}
        total = int(progress.get("total", 0))
        count = int(progress.get("done" if total else "rows", 0))
        step(str(progress.get("phase") or job.get("status")), count, total)

    return seen


def dataset_base(url: str) -> str:
    """Return the HTTP base of the URL of a dataset or node. The URL may begin with `odf+`.

    Raises:
        UnsupportedUrl: the address is not a URL of a node.
    """
    location = Location.parse(url)
    if not location.base:
        raise BadInput(
            "UnsupportedUrl",
            f"this takes a dataset of a node: its URL http(s)://…, or with --node or {HOME} its "
            f"name, not {url!r}",
            url=url,
        )
    return location.base


def receipt_text(receipt: dict[str, Any]) -> str:
    """Return the receipt as two lines for a person, with one more line for each warning."""
    if not receipt:
        return "done (this node gives no receipt)"
    counted = (("added", "rowsAdded"), ("already known", "rowsKnown"))
    changed = (("retracted", "rowsRetracted"), ("corrected", "rowsCorrected"))
    parts = [f"{receipt.get(key, 0)} {word}" for word, key in counted]
    if receipt.get("rowsRejected"):
        parts.append(f"{receipt['rowsRejected']} rejected (job {receipt.get('rejectedJob')})")
    parts += [f"{receipt[key]} {word}" for word, key in changed if receipt.get(key)]
    if receipt.get("rowsLate"):
        parts.append(f"{receipt['rowsLate']} left out as late")
    would = "dry run, " if receipt.get("dryRun") else ""
    would += "replayed (the node had this request before), " if receipt.get(REPLAYED) else ""
    read = f"{receipt.get('rowsRead', 0)} row(s) read"
    text = f"{would}{receipt.get('outcome')}: {read}, {', '.join(parts)}"
    if receipt.get("offsetStart") is not None:
        text += f", offsets {receipt['offsetStart']} to {receipt['offsetEnd']}"
    warnings = [f"warning: {one_line(warning, 1000)}" for warning in receipt.get("warnings", ())]
    return "\n".join([text, f"head {receipt.get('head')}", *warnings])


Found = dict[str, Any]


Line = Callable[[Found], str]


def ask(
    url: str, token: str | None, method: str, path: str, body: Any = None, **query: str
) -> Found:
    """Send a request to a path below the dataset at `url`. Body and response are JSON."""
    with open_http() as http:
        return NodeApi(dataset_base(url), token, http=http).ask(method, path, body, **query)


def say(found: Found, line: Line, *, as_json: bool) -> None:
    """Print one result, as a JSON document or as the line that `line` returns."""
    if as_json:
        print_json(found)
    else:
        click.echo(line(found))


def say_each(found: Found, name: str, line: Line, *, as_json: bool) -> None:
    """Print the result as a JSON document, or a line for each item of its list `name`."""
    if as_json:
        print_json(found)
        return
    for each in found.get(name, []):
        click.echo(line(each))


def say_removed(name: str, *, as_json: bool) -> None:
    """Print the name that was removed as JSON; print nothing otherwise."""
    if as_json:
        print_json({"removed": name})
