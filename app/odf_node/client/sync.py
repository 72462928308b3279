"""Pull and push between any two locations: choose the protocol and open the repositories.

source \\ target     folder, bucket      odf+http(s)          http(s)
odf+http(s)         smart pull          not supported        read-only
http(s), bucket     simple pull         not supported        read-only
folder              simple pull         smart push           read-only
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odf_storage.stores.ports.values import Visibility

from .bucket import BucketRepository
from .folder import FolderRepository
from .http import open_http
from .limits import LIMITS, ClientLimits
from .progress import UNWATCHED, Progress
from .receive import Outcome
from .repositories import HttpRepository, Repository
from .simple_pull import pull_simple
from .smart_pull import pull_smart
from .smart_push import push_smart
from .target import Target
from .urls import Location, Transfer, UnsupportedUrl
from .whole_chain import WholeChainRepository


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
            raise UnsupportedUrl("a node follows URLs, no folders or buckets", url=str(location))
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
        raise UnsupportedUrl(
            f"a pull writes into a folder or bucket, not to {location}", url=str(location)
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
        raise UnsupportedUrl(f"a push reads from a folder, not from {source}", url=str(source))
    folder = FolderRepository(source.path, limits=limits)
    if target.transfer is Transfer.SIMPLE:
        raise UnsupportedUrl(f"{target} can only be read; push to odf+{target}", url=str(target))
    if target.path is not None or target.bucket:
        mirror = target_at(target, limits)
        if not create:
            mirror.head()
        return pull_simple(folder, mirror, force=force, limits=limits, progress=progress)
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
