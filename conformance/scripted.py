"""Pushes said word by word, for checks of what a node does with wrong ones."""

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
    """`DatasetPushMetadataRequest` with these blocks."""
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
    """The Close that ends a push which must not succeed, wherever it comes.

    Args:
        message: what is sent instead of the batch of `blocks`.
        upload: whether the objects of `chain` that are asked for are put.

    Raises:
        Deviation: the node confirms, or breaks off without a Close.
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
    """A push onto `made` ends with Close 1011 and leaves the head where it was."""
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
