"""A new dataset for rows that are at hand: it stays only if the rows enter, and a repeat works.

If the rows are refused, or do not arrive, the dataset is deleted as long as it is empty. If it
cannot be deleted, because the node is not reached, the next attempt finds it and goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from odf_protocol.errors import BadInput, Conflict, LimitExceeded, NodeError, Refused, RemoteFailed
from odf_protocol.metadata.events import DatasetSnapshot
from odf_protocol.multihash import Multihash

from ..nodes.http import TransferFailed, repeated
from ..nodes.later import httpx
from ..nodes.limits import LIMITS
from ..nodes.node_api import NodeApi, RequestConflict
from ..nodes.repositories import HttpRepository
from ..transfer.receive import ChainReader


@dataclass(frozen=True, slots=True)
class NewDataset:
    """A dataset without rows; `head` is its newest block."""

    url: str
    alias: str
    head: str
    warnings: tuple[str, ...] = ()
    """What the node said of its definition."""

    @property
    def base(self) -> str:
        return self.url.rstrip("/") + "/"


def node_and_alias(base: str) -> tuple[str, str]:
    """Split the URL of a dataset into that of its node and `[account/]name`.

    Raises:
        UnsupportedUrl: the path has no such form.
    """
    path = urlsplit(base).path
    alias = unquote(path).strip("/")
    if not alias or alias.count("/") > 1:
        raise BadInput(
            "UnsupportedUrl", f"name a dataset, http(s)://node/[account/]name, not {base}", url=base
        )
    return base[: len(base) - len(path)] + "/", alias


def new_dataset(
    http: httpx.Client,
    node: str,
    token: str | None,
    manifest: bytes,
    snapshot: DatasetSnapshot,
    *,
    visibility: str,
) -> NewDataset:
    """Create a dataset, or return the one that an earlier attempt left: with the same definition
    and without rows. So the request is repeated if a server before the node gave up, which may have
    been after the node had created the dataset.

    Raises:
        RequestConflict: another dataset has the name.
        TransferFailed: the answer says nothing of a dataset.
    """
    api = NodeApi(node, token, http=http)
    try:
        made = repeated(
            lambda _: api.create_dataset(manifest, visibility=visibility), seconds=LIMITS.reread_s
        )
        warnings = tuple(map(str, made.get("warnings") or ()))
        return NewDataset(str(made["url"]), str(made["alias"]), str(made["head"]), warnings)
    except KeyError:
        raise TransferFailed(
            f"the answer of {node} says nothing of a new dataset: another server than a node may "
            "have given it; the same command again goes on with a dataset that was created"
        ) from None
    except RequestConflict as taken:
        alias = taken.facts.get("alias")
        left = _left(http, node, token, alias, snapshot.metadata)
        if left is None:
            way = f"`odf-node ingest FILE {node}{alias}` adds rows to it"
            raise RequestConflict(f"{taken.message}; {way}", **taken.facts) from taken
        return left


@contextmanager
def kept_if_filled(dataset: NewDataset, api: NodeApi) -> Iterator[None]:
    """Delete a new dataset if the block in which its rows are posted fails.

    Raises:
        RowsNotTaken: the node refused the rows. RowsLost: anything else went wrong on the way.
    """
    try:
        yield
    except (BadInput, LimitExceeded, Refused, Conflict) as refused:
        what = f"{refused.message}; {_given_up(dataset, api)}"
        raise BadInput("RowsNotTaken", what, **refused.facts) from refused
    except NodeError as broken:
        what = f"{broken.message}; {_given_up(dataset, api)}"
        raise RemoteFailed("RowsLost", what, **broken.facts) from broken
    except KeyboardInterrupt:
        _given_up(dataset, api)
        raise


def _given_up(dataset: NewDataset, api: NodeApi) -> str:
    """Delete the dataset if it is as it was made. Return what remains."""
    try:
        api.ask("DELETE", "", expectedHead=dataset.head)
    except Conflict:
        return f"but rows have entered: {dataset.url}"
    except NodeError as left:
        return (
            f"the empty dataset {dataset.alias} could not be deleted ({left.message}): the same "
            "command again goes on with it"
        )
    return "nothing was published"


def _left(
    http: httpx.Client, node: str, token: str | None, alias: Any, wanted: Sequence[Any]
) -> NewDataset | None:
    """Return the dataset of this name if it has these events and nothing else."""
    if not isinstance(alias, str):
        return None
    base = f"{node}{alias}/"
    try:
        found = NodeApi(base, token, http=http).dataset()
        if found.get("records") != 0 or found.get("blocks") != len(wanted) + 1:
            return None
        chain = ChainReader(HttpRepository(base, token, http=http))
        blocks = list(chain.back(Multihash.parse(str(found["head"]))))
    except (NodeError, KeyError, ValueError):
        return None
    if [block.event for block in reversed(blocks)][1:] != list(wanted):
        return None
    return NewDataset(str(found.get("url", base)), str(found.get("alias", alias)), found["head"])
