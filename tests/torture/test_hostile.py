"""While one account does its worst, posts of another are answered; how fast is `hostile.py`'s."""

from __future__ import annotations

import time

import pytest
from attacks import ATTACKS
from hostile import post_meanwhile, prepare, under
from nodes import served

pytestmark = pytest.mark.e2e
POSTS = 11


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    data = tmp_path_factory.mktemp("hostile") / "node"
    with served(data, "--tenancy", "multi", ODF_WORKER_WARM_UP="false") as node:
        yield node


@pytest.fixture(scope="module")
def stage(node):
    return prepare(node, wide_rows=40)


@pytest.mark.parametrize("attack", ATTACKS)
def test_posts_of_another_account_are_answered_under_attack(node, stage, attack):
    hostile, honest = stage
    with under(attack, hostile):
        waits = post_meanwhile(node.url, honest, time.monotonic(), least=POSTS)
    assert waits.failures == []
    assert len(waits.seconds) == POSTS
    assert node.process.poll() is None
