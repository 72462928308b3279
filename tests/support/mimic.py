"""The strict client of `conformance`, as the tests use it, on nodes of the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from threaded_node import ThreadedNode, threaded_node

from odf_conformance.chains import Block, Chain, object_name
from odf_conformance.http import Cut, Portion, Scissors
from odf_conformance.mimic import Mimic
from odf_conformance.node import ConformanceCheck, NodeNeed, NodeUnderTest, PublishedChain
from odf_conformance.run import BROKEN, CHECKS, node_of, run_one
from odf_conformance.websocket import CloseReason, Exchange, GaveUp, Result
from odf_node.service.accounts.accounts import ensure_account, set_password
from odf_node.service.auth.passwords import Cost
from odf_protocol.instant import Instant

__all__ = [
    "BROKEN",
    "CHECKS",
    "Block",
    "Chain",
    "CloseReason",
    "ConformanceCheck",
    "Cut",
    "Exchange",
    "GaveUp",
    "Mimic",
    "NodeNeed",
    "NodeUnderTest",
    "Portion",
    "PublishedChain",
    "Result",
    "Scissors",
    "node_for",
    "object_name",
    "on_own_node",
    "run_one",
]

LONG_AGO = Instant.parse("2020-01-01T00:00:00Z")
PASSWORD = "the password of the account"
PROGRESS_S = 1.5
"""Seconds between progress requests of the nodes of these tests. Longer than their uploads take
on a machine that has much to do: a client like the reference takes a progress request that
crosses its `Complete` for the confirmation."""


def node_for(node: ThreadedNode, account: str) -> NodeUnderTest:
    """Everything a check may need, on this node."""
    accounts = node.node.stores.accounts
    cost = Cost(node.node.settings.password_work)
    owner = ensure_account(accounts, account, os.urandom)
    set_password(accounts, owner, PASSWORD, os.urandom, node.node.clock(), cost)
    return node_of(
        node.url,
        read_only=False,
        token=node.token(account),
        account=account,
        password=PASSWORD,
        other=node.token("stranger"),
        expired=node.token("stranger", expires_at=LONG_AGO),
        patience_s=2.5 * PROGRESS_S,
        progress_s=PROGRESS_S,
    )


@contextmanager
def on_own_node(data: Path, account: str = "kamu", **settings: Any) -> Iterator[NodeUnderTest]:
    """A node of its own, and a bench on it."""
    with threaded_node(data, upload_progress_s=PROGRESS_S, **settings) as node:
        yield node_for(node, account)
