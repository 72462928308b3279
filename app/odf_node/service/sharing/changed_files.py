"""Files of feeds of changes, for callers that have the signed URL from a feed."""

from __future__ import annotations

import io

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.versions.changed_rows import changed_rows_key
from odf_storage.datasets.versions.histories import version_files
from odf_storage.stores.ports.errors import KeyNotFound

from ..auth.access import DatasetHidden
from ..auth.signed_urls import SignedUrls
from ..projections.gateway import ServedFile
from .files import CHANGES


def find_changed_file(
    stores: Stores, urls: SignedUrls, dataset: str, name: str, signature: str
) -> ServedFile:
    """Return a file by its signed URL.

    Raises `DatasetHidden`, `SignedUrlExpired`, for the same reasons as `SignedUrls.check`.
    """
    try:
        owner, slice_hash = DatasetId.parse(dataset), Multihash.parse(name)
    except BadInput:
        raise DatasetHidden from None
    urls.check(signature, CHANGES, owner, slice_hash)
    if stores.registry.find(DatasetRef(id=owner)) is None:
        raise DatasetHidden
    store = version_files(stores.projections, owner)
    key = changed_rows_key(slice_hash)
    try:
        with store.open(key) as stream:
            size = stream.seek(0, io.SEEK_END)
    except KeyNotFound:
        raise DatasetHidden from None
    return ServedFile(
        open=lambda: store.open(key),
        size=size,
        tag=f"{slice_hash}-{CHANGES}",
        is_fixed=True,
        is_public=False,
    )
