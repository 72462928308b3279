"""Nodes the strict client talks to: one of each tenancy, and one that keeps objects in S3."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from buckets import fresh_location, log_in
from mimic import PROGRESS_S, Exchange, NodeUnderTest, node_for
from servers import S3Server
from threaded_node import ThreadedNode, threaded_node

from odf_conformance import shapes
from odf_conformance.archive import push_request
from odf_conformance.chains import seeded, ten_records
from odf_conformance.checks.wire import PULL_ALL
from odf_conformance.violations import blocks_message


@pytest.fixture(scope="session")
def single_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedNode]:
    folder = tmp_path_factory.mktemp("single")
    patient = {"transfer_first_s": 3600.0}  # exchanges of `waiting` say nothing for all tests
    with threaded_node(folder, upload_progress_s=PROGRESS_S, password_work=2, **patient) as node:
        yield node


@pytest.fixture(scope="session")
def single(single_node: ThreadedNode) -> NodeUnderTest:
    """A single-tenant node with local files."""
    return node_for(single_node, "kamu")


@pytest.fixture(scope="session")
def multi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeUnderTest]:
    """A multi-tenant node with local files."""
    folder = tmp_path_factory.mktemp("multi")
    with threaded_node(
        folder, tenancy="multi", upload_progress_s=PROGRESS_S, password_work=2
    ) as node:
        yield node_for(node, "alice")


@pytest.fixture(scope="session")
def bucket(
    s3_bucket_url: str, s3: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeUnderTest]:
    """A multi-tenant node whose objects are in a bucket."""
    where = fresh_location(s3_bucket_url)
    url = f"{s3_bucket_url}/{where.prefix}".rstrip("/")
    folder = tmp_path_factory.mktemp("bucket")
    with pytest.MonkeyPatch.context() as patch:
        log_in(patch, s3)
        with threaded_node(folder, tenancy="multi", objects_url=url, password_work=2) as node:
            yield node_for(node, "alice")


@dataclass(frozen=True)
class Waiting:
    """Exchanges that stand still, by the state they stand in, and since when."""

    since: float
    exchanges: dict[str, Exchange]


@pytest.fixture(scope="session", autouse=True)
def waiting(single: NodeUnderTest) -> Iterator[Waiting]:
    """Opened before the first test of this folder, looked at by the last."""
    made, chain = single.publish(ten_records()), seeded()
    pulls = [single.mimic(made.url).exchange("pull") for _ in range(4)]
    pushes = [single.mimic(single.fresh()).exchange("push") for _ in range(3)]
    plan, files = push_request(chain.blocks, None), made.chain.files()
    said: list[tuple[Exchange, list[tuple[Any, Any]]]] = [
        (pulls[1], [(PULL_ALL, shapes.PULL_RESPONSE)]),
        (pulls[2], [(PULL_ALL, shapes.PULL_RESPONSE), ({}, shapes.PULL_METADATA)]),
        (
            pulls[3],
            [
                (PULL_ALL, shapes.PULL_RESPONSE),
                ({}, shapes.PULL_METADATA),
                ({"object_files": files}, shapes.PULL_OBJECTS),
            ],
        ),
        (pushes[1], [(plan, shapes.PUSH_RESPONSE)]),
        (
            pushes[2],
            [
                (plan, shapes.PUSH_RESPONSE),
                (blocks_message(chain.blocks), shapes.PUSH_METADATA),
            ],
        ),
    ]
    for exchange, messages in said:
        for message, shape in messages:
            exchange.ask(message, shape)
    names = ("pull", "planned", "batched", "told where", "push", "accepted", "checked")
    yield Waiting(time.monotonic(), dict(zip(names, [*pulls, *pushes], strict=True)))
    for exchange in (*pulls, *pushes):
        exchange.socket.drop()
