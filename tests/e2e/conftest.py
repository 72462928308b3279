"""Nodes of the end-to-end tests, each with a worker: on pairs of database and object store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from backends import PAIRS, environment
from nodes import RunningNode, served

SETTINGS = {
    "single": {
        "ODF_NODE_MAX_BODY_BYTES": str(1 << 20),
        "ODF_WORKER_LEASE_S": "2",  # a killed worker's jobs are soon claimed again
        "ODF_WORKER_TRANSFORM_MAX_ROWS": "3",  # several iterations of few rows
        "ODF_NODE_QUERY_CHECK_S": "120",
        "ODF_WORKER_FETCH_NETWORKS": '["127.0.0.1/32"]',
        "ODF_WORKER_TEMPLATE_VARIABLES": '["SOURCE_KEY"]',
        "SOURCE_KEY": "k3y",
    },
    "multi": {},
}
"""Of each tenancy, whatever the tests need: starting Spark takes longer than most of them."""
COLD = {"ODF_WORKER_WARM_UP": "false"}
"""Warming up would take longer than what the few jobs lose; the node of the story does."""


@pytest.fixture(scope="session", params=PAIRS)
def pair(request: pytest.FixtureRequest) -> str:
    """Where a node keeps its index and its objects; tests of a pair follow each other."""
    return str(request.param)


@pytest.fixture(scope="session")
def node(
    pair: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningNode]:
    """A single-tenant node with one Spark worker; bodies are limited to 1 MiB.

    One for all tests of the pair, so each test names its own datasets.
    """
    with _node("single", pair, request, tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="session")
def shared_node(
    pair: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningNode]:
    """A multi-tenant node with one Spark worker, likewise."""
    with _node("multi", pair, request, tmp_path_factory) as running:
        yield running


def _node(
    tenancy: str,
    pair: str,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> AbstractContextManager[RunningNode]:
    data = tmp_path_factory.mktemp(tenancy) / "node"
    settings = {**SETTINGS[tenancy], **COLD, **environment(pair, request)}
    return served(data, "--tenancy", tenancy, **settings)
