"""The rule of mirrors: only the remote of a mirror adds data to it."""

from __future__ import annotations

from odf_storage.stores.ports import MirrorReads
from odf_storage.stores.ports.values import DatasetEntry

from .access import IsRemote


def refuse_mirror(mirrors: MirrorReads, entry: DatasetEntry) -> None:
    """Raise `IsRemote` if the dataset is a mirror. Call it before every write that does not come
    from the remote."""
    if mirrors.find(entry.id) is not None:
        raise IsRemote
