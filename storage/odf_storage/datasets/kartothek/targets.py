"""Stores to which datasets may be published: folders and buckets that the administrator names.

A user chooses the URL of a store, and this machine writes to it. So without a setting only the
node's internal store is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from odf_protocol.errors import Refused

from ...stores.keyed.open import MalformedKeyedStoreUrl, open_keyed_store
from ...stores.ports import KeyedStore

SETTING = "ODF_STORE_PUBLISH_TO"


class StoreNotAllowed(Refused):
    """The administrator does not allow publication at this address."""

    def __init__(self) -> None:
        super().__init__(
            f"the administrator allows no publication there; {SETTING} names the folders and "
            "buckets that are allowed",
            setting=SETTING,
        )


def allowed_store(url: str, allowed: Sequence[str], *, kept_in: Sequence[Path]) -> KeyedStore:
    """Open the store at a URL below one of the `allowed` ones. `kept_in` are the folders of the
    node's state: they and all folders that contain them are refused.

    Raises:
        StoreNotAllowed. MalformedKeyedStoreUrl, MalformedStoreUrl.
    """
    scheme, segments = _place(url)
    if not any(_is_below(scheme, segments, *_place(each)) for each in allowed):
        raise StoreNotAllowed
    if scheme == "file":
        folder = Path("/", *segments).resolve()
        roots = [Path("/", *_place(each)[1]).resolve() for each in allowed if _is_file(each)]
        if not any(folder.is_relative_to(root) for root in roots):  # a symbolic link leads outside
            raise StoreNotAllowed
        own = [each.resolve() for each in kept_in]
        if any(folder.is_relative_to(each) or each.is_relative_to(folder) for each in own):
            raise StoreNotAllowed
    return open_keyed_store(url)


def _is_file(url: str) -> bool:
    return url.startswith("file://")


def _is_below(scheme: str, segments: Sequence[str], its: str, root: Sequence[str]) -> bool:
    return scheme == its and list(segments[: len(root)]) == list(root)


def _place(url: str) -> tuple[str, list[str]]:
    """Return the scheme, and the segments of host and path. Raise `MalformedKeyedStoreUrl`."""
    scheme, separator, _ = url.partition("://")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise MalformedKeyedStoreUrl("the store is no URL") from None
    path = unquote(parts.path) if scheme == "file" else parts.path
    pieces = [piece for piece in (parts.netloc, *path.split("/")) if piece]
    if not separator or parts.query or parts.fragment or not {".", ".."}.isdisjoint(pieces):
        raise MalformedKeyedStoreUrl("a store is named by a plain URL of a folder or a bucket")
    return scheme, pieces
