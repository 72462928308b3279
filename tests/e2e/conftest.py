"""Nodes of the end-to-end tests: one single-tenant and one multi-tenant, each with a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from backends import DIAGONAL, environment
from nodes import RunningNode, served


@pytest.fixture(scope="module", params=DIAGONAL)
def node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningNode]:
    """A single-tenant node with one Spark worker; bodies are limited to 1 MiB."""
    data = tmp_path_factory.mktemp("single") / "node"
    settings = {"ODF_NODE_MAX_BODY_BYTES": str(1 << 20), **environment(request.param, request)}
    with served(data, "--tenancy", "single", **settings) as running:
        yield running


@pytest.fixture(scope="module")
def shared_node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, node: RunningNode
) -> Iterator[RunningNode]:
    """A multi-tenant node with one Spark worker, its index in PostgreSQL, its objects in S3: a new
    one for each `node` it is to exchange with."""
    data = tmp_path_factory.mktemp("multi") / "node"
    with served(data, "--tenancy", "multi", **environment(DIAGONAL[1], request)) as running:
        yield running
