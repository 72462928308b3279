"""Why a row is there, over several nodes: a client goes on at the node from which one pulled.

A node computes nothing of what another node computed unless it has the inputs. It says where its
copy is pulled from, and the client asks there about the same row of the same block, with the
person's own rights; so no node lends its rights to another's readers. Every node is a stranger:
what it says must fit the block, which the first node has, and takes bounded time and room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

from odf_protocol.errors import NodeError
from odf_storage.datasets.job_payloads import why_job
from odf_storage.datasets.job_payloads.why_job import UNKNOWN, WhyStep
from odf_storage.runtime.networks import HostRefused, reachable

from ..nodes.home import origin_of
from ..nodes.http import TransferFailed, open_http
from ..nodes.later import httpx
from ..nodes.limits import ClientLimits, one_line
from ..nodes.node_api import NOTHING, Given, NodeApi, Seen
from ..nodes.remotes import http_base

Depth = int | str
"""Number of steps from row to row, or `all`."""
Step = dict[str, Any]
"""A step of an answer as JSON; `toldBy` is the URL of the dataset at the node that told it."""
TokenOf = Callable[[str], str | None]
"""Returns the person's token for the node of a URL."""
ALL = "all"
QUESTIONS = 20
"""Limit of questions to other nodes for one answer."""
NOTE_CHARS = 300
EVERYWHERE = ("0.0.0.0/0", "::/0")
PATIENCE_S = 60.0
"""Seconds for one question to another node, with all that is read."""


def why_everywhere(
    base: str,
    token: str | None,
    stored: TokenOf | None,
    *,
    depth: Depth = 1,
    seen: Seen | None = None,
    **question: Given,
) -> dict[str, Any]:
    """Return why a row of the dataset at `base` is there, asked of that node, and where it cannot
    say because inputs are not on it, of the nodes from which it pulls. What another node does not
    tell becomes a note. `stored` gives the tokens for other nodes than the first; None asks none.
    `seen` is called with the job of the first node at each poll.

    Raises as `NodeApi.why`, for the first node alone.
    """
    with open_http() as http:
        answer = NodeApi(base, token, http=http).why(depth=depth, seen=seen, **question)
    if stored is None:
        return answer
    own = origin_of(base)
    trail = _Trail(lambda url: token if origin_of(url) == own else stored(url), _networks(base))
    first = {name: question.get(name) for name in ("column", "after")}
    answer["step"] = trail.followed(answer["step"], base, depth, first)
    return answer


def _networks(base: str) -> tuple[str, ...]:
    """Return the ranges of other nodes, beside the public network: any if the first node is not on
    it, else none, so that no public node has this machine ask within its own network."""
    from ..nodes.reach import PORTS  # loads libraries of the network

    parts = urlsplit(base)
    try:
        reachable(parts.hostname or "", parts.port or PORTS[parts.scheme], ())
    except (HostRefused, OSError, UnicodeError, ValueError):
        return EVERYWHERE
    return ()


@dataclass
class _Trail:
    """The way from node to node. A row is asked about once at each address, so nodes that name each
    other in a circle end it."""

    token: TokenOf
    networks: tuple[str, ...]
    _seen: set[tuple[str, str, int]] = field(default_factory=set)
    _questions: int = 0

    def followed(
        self, step: Step, base: str, depth: Depth, question: Mapping[str, Given] = NOTHING
    ) -> Step:
        """Return the step and those below it, with what other nodes tell of them. `base` is the
        address at which the step was told; `question` says which columns and page are asked for."""
        if depth == 0:
            return step
        step, told_at = self._continued(step, base, {"depth": depth, **question})
        below = depth if depth == ALL else int(depth) - 1
        if step.get("inputs"):
            step["inputs"] = [self.followed(each, told_at, below) for each in step["inputs"]]
        return step

    def _continued(self, known: Step, base: str, question: Mapping[str, Given]) -> tuple[Step, str]:
        """Return the step as the first node tells it that can, else as it was told, and the address
        at which it was told."""
        self._seen.add(_place(base, known))
        step, there = known, base
        while _is_open(step) and step.get("elsewhere"):
            there = str(step["elsewhere"])
            try:
                step = self._told(there, known, question)
            except HostRefused:
                return _noted(known, f"{there} is not asked: it is not on the public network"), base
            except NodeError as problem:
                return _noted(known, f"{there} did not tell: {problem.message}"), base
        if step is known or _is_open(step):
            return known, base
        return {**step, "row": known["row"], "block": known["block"], "toldBy": there}, there

    def _told(self, url: str, known: Step, question: Mapping[str, Given]) -> Step:
        """Return what the node at a URL tells of a row. Raises `TransferFailed`, …"""
        place = _place(url, known)
        if place in self._seen:
            raise TransferFailed("nodes that pull this dataset name each other in a circle")
        if self._questions >= QUESTIONS:
            raise TransferFailed(f"{QUESTIONS} questions were asked of other nodes, the limit")
        self._seen.add(place)
        self._questions += 1
        base = http_base(url)
        limits = ClientLimits(
            networks=self.networks,
            connect_s=5.0,
            answer_s=PATIENCE_S / 2,
            message_s=PATIENCE_S / 2,
            confirm_s=PATIENCE_S,
            repeat_s=1.0,
            reread_s=1.0,
            whole_s=PATIENCE_S,
        )
        row, block = known["row"], known["block"]["hash"]
        with open_http(limits) as http:
            api = NodeApi(base, self.token(base), http=http, limits=limits)
            try:
                answer = api.why(seen=None, offset=row["offset"], at=block, **question)
                step = why_job.answer_of(answer).step
            except (msgspec.ValidationError, RecursionError, httpx.HTTPError) as wrong:
                raise _unfit("no answer of the form that is due") from wrong
        _refuse_unfit(step, known)
        # Only what has a meaning is kept: a stranger may not say by whom something is told.
        return dict(msgspec.json.decode(msgspec.json.encode(step)))


def _place(base: str, step: Step) -> tuple[str, str, int]:
    return base.rstrip("/"), step["row"]["dataset"], step["row"]["offset"]


def _is_open(step: Step) -> bool:
    """Return whether the node could not say from which rows the row was made."""
    return bool(step["check"]["verdict"] == UNKNOWN)


def _noted(step: Step, note: str) -> Step:
    return {**step, "notes": [*step.get("notes", ()), one_line(note, NOTE_CHARS)]}


def _refuse_unfit(step: WhyStep, known: Step) -> None:
    """Check that the answer is about the row, and names only rows that the execution had. Raises
    `TransferFailed`."""
    row = known["row"]
    if (step.row.dataset, step.row.offset) != (row["dataset"], row["offset"]):
        raise _unfit("an answer about another row")
    if step.block.hash != known["block"]["hash"]:
        raise _unfit("an answer about another block")
    inputs = {each["dataset"] for each in known["block"].get("inputs", ())}
    for given in step.why:
        if given.dataset not in inputs:
            raise _unfit("rows of a dataset that is no input of the block")
    for below in step.inputs:
        named = (each for each in step.why if each.dataset == below.row.dataset)
        rows = [one for each in named for one in each.rows]
        if not any(one.start <= below.row.offset <= one.end for one in rows):
            raise _unfit("a step for a row that it does not name")


def _unfit(what: str) -> TransferFailed:
    return TransferFailed(f"it gave {what}")
