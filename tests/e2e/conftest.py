"""Nodes of the end-to-end tests: one single-tenant and one multi-tenant, each with a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nodes import RunningNode, served


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A single-tenant node with one Spark worker; bodies are limited to 1 MiB."""
    data = tmp_path_factory.mktemp("single") / "node"
    with served(data, "--tenancy", "single", ODF_NODE_MAX_BODY_BYTES=str(1 << 20)) as running:
        yield running


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A multi-tenant node with one Spark worker."""
    data = tmp_path_factory.mktemp("multi") / "node"
    with served(data, "--tenancy", "multi") as running:
        yield running
