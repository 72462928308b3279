"""Pushes with scripted messages, for checks of how a node handles wrong pushes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .archive import batch
from .chains import Block, Chain
from .exchange import COMPLETE, Exchange
from .mimic import Mimic
from .node import Deviation, NodeUnderTest, Published, expect, expect_true
from .outcomes import UNREADABLE, GaveUp
from .planning import push_request
from .websocket import Closed
from .wire import Disconnected

INTERNAL_CLOSE = 1011


def blocks_message(blocks: Sequence[Block], **changes: Any) -> dict[str, Any]:
    """Return the `DatasetPushMetadataRequest` with these blocks."""
    return {"new_blocks": batch([(block.hash, block.raw) for block in blocks], **changes)}


def objects_message(files: Sequence[dict[str, Any]], *, truncated: bool = False) -> dict[str, Any]:
    return {"object_files": list(files), "is_truncated": truncated}


def close_of(
    mimic: Mimic,
    remote: str | None,
    blocks: Sequence[Block],
    chain: Chain,
    *,
    message: dict[str, Any] | None = None,
    upload: bool = True,
    force: bool = False,
) -> Closed:
    """Run a push that must not succeed, and return the Close that ends it at any step.

    Args:
        message: message to send instead of the batch of `blocks`.
        upload: whether to put the objects of `chain` that the node requests.

    Raises:
        Deviation: the node confirms the push, or disconnects without a Close.
    """
    files = [file for block in blocks for file in block.files]
    with mimic.exchange("push") as exchange:
        try:
            _ask(exchange, push_request(blocks, remote, force=force))
            _ask(exchange, message or blocks_message(blocks))
            answer = _ask(exchange, objects_message(files))
            for strategy in answer["Ok"]["object_transfer_strategies"] if upload else ():
                if strategy["push_strategy"] == "HttpUpload":
                    mimic.upload(strategy, chain)
            exchange.say(COMPLETE)
            said = _ask(exchange, {})
        except Closed as closed:
            return closed
        except (Disconnected, GaveUp, *UNREADABLE) as broken:
            raise Deviation(f"the push broke off without a Close: {broken}") from None
    raise Deviation(f"the push was answered with {said}")


def _ask(exchange: Exchange, message: Any) -> Any:
    exchange.say(message)
    return json.loads(exchange.socket.receive())


def expect_refused(
    node: NodeUnderTest, made: Published, blocks: Sequence[Block], chain: Chain, **more: Any
) -> Closed:
    """Check that a push to `made` ends with Close 1011 and does not move the head."""
    mimic = node.mimic(made.url)
    closed = close_of(mimic, made.chain.head, blocks, chain, **more)
    expect("close code", closed.code, INTERNAL_CLOSE)
    expect_true("the reason is no JSON", _is_json(closed.reason))
    expect("head", mimic.head(), made.chain.head)
    return closed


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
