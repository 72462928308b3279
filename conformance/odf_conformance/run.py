"""Run the checks against a node, and collect their outcomes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from odf_protocol.errors import BadInput, NodeError

from .checks import access, accounts, commit, pull, push, wire
from .http import NotHttp, PeerDisconnected, follow
from .node import ConformanceCheck, Deviation, NodeUnderTest
from .websocket import UNREADABLE, Closed, GaveUp, HandshakeRefused

MODULES = (pull, push, access, accounts, wire, commit)
CHECKS: tuple[ConformanceCheck, ...] = tuple(
    sorted((one for module in MODULES for one in module.CHECKS), key=lambda one: one.id)
)
GROUPS = {
    "A": "Smart pull",
    "B": "Smart push",
    "C": "Where objects are fetched from and put to",
    "D": "Simple pull",
    "H": "Who asks",
    "I": "Who may do what",
    "J": "Addresses",
    "K": "What a node says of itself",
    "L": "Logins and tokens",
    "M": "Uploaded files",
    "Z": "On the wire",
}
BROKEN = (Deviation, GaveUp, Closed, HandshakeRefused, PeerDisconnected, *UNREADABLE)


class Status(Enum):
    PASSED = "passed"
    FAILED = "failed"
    LEFT_OUT = "left out"


@dataclass(frozen=True)
class CheckOutcome:
    """The result of one check: its status, the reason, and how long it took."""

    check: ConformanceCheck
    status: Status
    reason: str = ""
    seconds: float = 0.0

    @property
    def group(self) -> str:
        return GROUPS[self.check.id[0]]


@dataclass
class ConformanceReport:
    """All outcomes, in the order of the checks."""

    url: str
    outcomes: list[CheckOutcome] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.of(Status.FAILED) and bool(self.of(Status.PASSED))

    def of(self, status: Status) -> list[CheckOutcome]:
        return [outcome for outcome in self.outcomes if outcome.status is status]

    def groups(self) -> Iterator[tuple[str, list[CheckOutcome]]]:
        for group in GROUPS.values():
            found = [outcome for outcome in self.outcomes if outcome.group == group]
            if found:
                yield group, found


def run_checks(
    node: NodeUnderTest,
    checks: Sequence[ConformanceCheck] = CHECKS,
    *,
    progress: Callable[[CheckOutcome], None] = lambda _: None,
) -> ConformanceReport:
    """Run every check whose needs are met, then delete the datasets of the run."""
    report = ConformanceReport(node.dataset or node.origin)
    for one in checks:
        outcome = run_one(node, one)
        progress(outcome)
        report.outcomes.append(outcome)
    if not node.read_only:
        report.left_behind = node.clean()
    return report


def run_one(node: NodeUnderTest, one: ConformanceCheck) -> CheckOutcome:
    need = node.missing(one)
    if need is not None:
        return CheckOutcome(one, Status.LEFT_OUT, f"needs {need.value}")
    started = time.monotonic()
    try:
        one.run(node)
        status, reason = Status.PASSED, ""
    except BROKEN as broken:
        status, reason = Status.FAILED, str(broken) or type(broken).__name__
    except NodeError as broken:
        status, reason = Status.FAILED, broken.message
    except (ValueError, LookupError, TypeError) as broken:
        # an unexpected response must end only the check, not the program
        status, reason = Status.FAILED, f"{type(broken).__name__}: {broken}"
    return CheckOutcome(one, status, reason, time.monotonic() - started)


def node_of(url: str, *, read_only: bool, **more: Any) -> NodeUnderTest:
    """Return the node under test for a URL of a node, or with `read_only` of a public dataset.

    Raises:
        NoNodeThere: no server responds, or it is no node.
    """
    parts = urlsplit(url.removeprefix("odf+"))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput("NoNodeThere", f"{url} is no http(s) address")
    origin = f"{parts.scheme}://{parts.netloc}"
    info = _json(origin + "/info")
    if not isinstance(info, dict) or "isMultiTenant" not in info:
        raise BadInput("NoNodeThere", f"{origin}/info does not answer like an ODF node")
    path = parts.path.strip("/")
    dataset = f"{origin}/{path}/" if path else None
    if read_only and dataset is None:
        raise BadInput("NoNodeThere", "a read-only run needs the address of a public dataset")
    return NodeUnderTest(
        origin=origin,
        multi=bool(info["isMultiTenant"]),
        read_only=read_only,
        dataset=dataset if read_only else None,
        **more,
    )


def account_of(origin: str, token: str) -> str | None:
    """Return the account of a token, or None if the node does not know the token."""
    me = _json(origin + "/accounts/me", [("authorization", f"Bearer {token}")])
    return str(me["accountName"]) if isinstance(me, dict) and "accountName" in me else None


def _json(url: str, headers: Sequence[tuple[str, str]] = ()) -> Any:
    try:
        return json.loads(follow("GET", url, headers).body)
    except (ValueError, PeerDisconnected, NotHttp):
        return None
