"""Nodes of the end-to-end tests, each with a worker: on every pair of database and object store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from backends import BACKENDS, environment
from nodes import RunningNode, served

SETTINGS = {
    "single": {
        "ODF_NODE_MAX_BODY_BYTES": str(1 << 20),
        "ODF_NODE_LEASE_S": "2",  # a killed worker's jobs are soon claimed again
        "ODF_NODE_TRANSFORM_MAX_ROWS": "3",  # several iterations of few rows
        "ODF_NODE_QUERY_CHECK_S": "120",
        "ODF_NODE_FETCH_NETWORKS": '["127.0.0.1/32"]',
        "ODF_NODE_TEMPLATE_VARIABLES": '["SOURCE_KEY"]',
        "SOURCE_KEY": "k3y",
    },
    "multi": {},
}
"""Of each tenancy, whatever the tests need: starting Spark takes longer than most of them."""

Serve = Callable[[str, str], RunningNode]


@pytest.fixture(scope="session")
def serve(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serve]:
    """Node of a pair and tenancy: one for the whole run, so each test names its own datasets."""
    with ExitStack() as running:

        @cache
        def of(pair: str, tenancy: str) -> RunningNode:
            data = tmp_path_factory.mktemp(tenancy) / "node"
            settings = {**SETTINGS[tenancy], **environment(pair, request)}
            return running.enter_context(served(data, "--tenancy", tenancy, **settings))

        yield of


@pytest.fixture(scope="session", params=BACKENDS)
def pair(request: pytest.FixtureRequest) -> str:
    """Where a node keeps its index and its objects."""
    return str(request.param)


@pytest.fixture(scope="session")
def node(serve: Serve, pair: str) -> RunningNode:
    """A single-tenant node with one Spark worker; bodies are limited to 1 MiB."""
    return serve(pair, "single")


@pytest.fixture(scope="session")
def shared_node(serve: Serve, pair: str) -> RunningNode:
    """A multi-tenant node with one Spark worker."""
    return serve(pair, "multi")
