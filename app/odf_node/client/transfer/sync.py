r"""Pull and push between any two locations: choose the protocol and open the repositories.

source \ target     folder, bucket      odf+http(s)          http(s)
odf+http(s)         smart pull          not supported        read-only
http(s), bucket     simple pull         not supported        read-only
folder              simple pull         smart push           read-only

Create the datasets of several manifests in the order of their inputs: all of them or none.

The node creates datasets one by one. If it refuses one, the client deletes the ones created before;
until then other users may see them.

Have a node mirror a dataset of another node: create the mirror, or pull into an existing one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from odf_protocol.codec.manifests import manifest
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.metadata.events import DatasetSnapshot
from odf_storage.stores.ports.values import Visibility

from ..nodes.http import DatasetMissing, TransferFailed, open_http
from ..nodes.limits import LIMITS, ClientLimits
from ..nodes.node_api import NodeApi, NothingThere
from ..nodes.remotes import Location, Transfer
from ..nodes.repositories import HttpRepository, Repository
from .folder import FolderRepository, in_order
from .linked import Target
from .receive import UNWATCHED, Outcome, Progress
from .simple_pull import BucketRepository, pull_simple
from .smart_pull import WholeChainRepository, pull_smart
from .smart_push import push_smart


@contextmanager
def opened(
    location: Location,
    token: str | None = None,
    *,
    whole: bool = False,
    limits: ClientLimits = LIMITS,
) -> Iterator[Repository]:
    """Open any location for reading, by the simple protocol.

    `whole` means that the caller will read all blocks; a node at an `odf+` address then sends them
    in one message.
    """
    if location.path is not None or location.bucket:
        if limits.networks is not None:
            raise BadInput(
                "UnsupportedUrl", "a node follows URLs, no folders or buckets", url=str(location)
            )
        yield target_at(location, limits)
        return
    with open_http(limits) as http:
        if whole and location.transfer is Transfer.SMART:
            yield WholeChainRepository(location, token, http=http, limits=limits)
            return
        yield HttpRepository(location.base, token, http=http, limits=limits)


def target_at(location: Location, limits: ClientLimits) -> Target:
    """Return a folder or bucket as a target. Raises `UnsupportedUrl`."""
    if location.bucket:
        return BucketRepository(location.bucket, limits=limits)
    if location.path is None:
        raise BadInput(
            "UnsupportedUrl",
            f"a pull writes into a folder or bucket, not to {location}",
            url=str(location),
        )
    return FolderRepository(location.path, limits=limits)


def pull(
    source: Location,
    target: Location,
    *,
    token: str | None = None,
    force: bool = False,
    limits: ClientLimits = LIMITS,
    progress: Progress = UNWATCHED,
) -> Outcome:
    """Bring the folder or bucket `target` to the head of `source`.

    Raises the same errors as `pull_smart` and `pull_simple`.
    """
    into = target_at(target, limits)
    return pull_into(source, into, token=token, force=force, limits=limits, progress=progress)


def pull_into(
    source: Location,
    target: Target,
    *,
    token: str | None = None,
    force: bool = False,
    limits: ClientLimits = LIMITS,
    progress: Progress = UNWATCHED,
) -> Outcome:
    """Bring any target of pulls to the head of `source`."""
    if source.transfer is Transfer.SMART:
        return pull_smart(
            source, target, token=token, force=force, limits=limits, progress=progress
        )
    with opened(source, token, limits=limits) as repository:
        return pull_simple(repository, target, force=force, limits=limits, progress=progress)


def push(
    source: Location,
    target: Location,
    *,
    token: str | None = None,
    force: bool = False,
    visibility: Visibility = Visibility.PRIVATE,
    create: bool = True,
    limits: ClientLimits = LIMITS,
    progress: Progress = UNWATCHED,
) -> Outcome:
    """Bring `target` to the head of the folder `source`; without `create`, it must exist."""
    if source.path is None:
        raise BadInput(
            "UnsupportedUrl", f"a push reads from a folder, not from {source}", url=str(source)
        )
    folder = FolderRepository(source.path, limits=limits)
    if target.transfer is Transfer.SIMPLE:
        raise BadInput(
            "UnsupportedUrl", f"{target} can only be read; push to odf+{target}", url=str(target)
        )
    if target.path is not None or target.bucket:
        mirror = target_at(target, limits)
        if not create:
            mirror.head()
        return pull_simple(folder, mirror, force=force, limits=limits, progress=progress)
    try:
        return push_smart(
            folder,
            target,
            token=token,
            force=force,
            visibility=visibility,
            create=create,
            limits=limits,
            progress=progress,
        )
    except DatasetMissing as missing:
        is_remote = missing.facts.get("at") == str(target)
        if is_remote and (why := _of_other_tenancy(target.base, token, limits)):
            raise DatasetMissing(f"{missing.message}: {why}", **missing.facts) from None
        raise


def _of_other_tenancy(base: str, token: str | None, limits: ClientLimits) -> str | None:
    """Return what is wrong with the path of an address if its node has one tenant, and the path an
    account, or the other way round."""
    for parts, is_multi in ((2, False), (1, True)):
        node, *path = base.rstrip("/").rsplit("/", parts)
        if node.endswith("/"):  # that was the host
            continue
        try:
            with open_http(limits) as http:
                info = NodeApi(node + "/", token, http=http, limits=limits).look("info")
        except NodeError:  # no node is there
            continue
        if info.get("isMultiTenant") is not is_multi:
            continue
        if is_multi:
            return (
                f"the node {node} has several accounts, so write whose the dataset is to be: "
                f"odf+{node}/ACCOUNT/{path[0]}"
            )
        return (
            f"the node {node} has a single tenant, so names there have no account: "
            f"write odf+{node}/{path[1]}"
        )
    return None


Create = Callable[[bytes], dict[str, Any]]
Delete = Callable[[dict[str, Any]], None]


def create_all(
    snapshots: Sequence[DatasetSnapshot], create: Create, delete: Delete
) -> list[dict[str, Any]]:
    """Create all datasets and return the node's responses in the order of creation.

    Raises `LeftBehind`, and the same errors as `create`.
    """
    created: list[dict[str, Any]] = []
    for one in in_order(snapshots):
        try:
            created.append(create(json.dumps(manifest("DatasetSnapshot", one)).encode()))
        except NodeError as refused:
            _undo(created, delete, refused)
            raise type(refused)(f"{one.name}: {refused.message}", **refused.facts) from refused
    return created


def _undo(created: list[dict[str, Any]], delete: Delete, refused: NodeError) -> None:
    left: list[str] = []
    for one in reversed(created):
        try:
            delete(one)
        except NodeError:
            left.append(str(one.get("alias")))
    if left:
        raise TransferFailed(
            "LeftBehind",
            f"{refused.message}; these were created and could not be deleted again: "
            f"{', '.join(left)}",
            datasets=left,
        ) from refused


def mirror_at(
    target: Location,
    source: Location,
    *,
    token: str | None = None,
    source_token: str | None = None,
    force: bool = False,
    visibility: str = "private",
    limits: ClientLimits = LIMITS,
) -> dict[str, Any]:
    """Return the receipt of the pull. The target's node stores the source's token encrypted.

    Raises:
        NotOnANode, RequestRefused, RequestConflict, Refused, TransferFailed
    """
    if source.transfer not in (Transfer.SMART, Transfer.SIMPLE):
        raise BadInput("NotOnANode", f"a node can mirror a URL, not {source}")
    base, name = _on_node(target)
    with open_http(limits) as http:
        there = NodeApi(target.base, token, http=http, limits=limits)
        try:
            there.look("mirror")
        except NothingThere:
            content = {"name": name, "remote": str(source), "token": source_token}
            manifest = {"kind": "DatasetMirror", "version": 1, "content": content}
            node = NodeApi(base, token, http=http, limits=limits)
            node.create_dataset(json.dumps(manifest).encode(), visibility=visibility)
        return there.refresh(force=force)


def _on_node(target: Location) -> tuple[str, str]:
    """Return the URL of the node, and the name of the dataset as the node writes it."""
    parts = urlsplit(target.base)
    segments = [unquote(part) for part in parts.path.split("/") if part]
    if target.transfer is not Transfer.SMART or not 1 <= len(segments) <= 2:
        raise BadInput(
            "NotOnANode", f"a node mirrors at odf+http(s)://host/[account/]name, not at {target}"
        )
    return f"{parts.scheme}://{parts.netloc}/", "/".join(segments)
