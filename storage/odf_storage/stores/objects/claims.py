"""Unfinished uploads of each account: one file per claim, in one folder per account.

    uploads/.begun/<hash of the account>/<dataset>-<kind>-<hash>
                                           the announced size, as text

A claim is valid as long as a part of its upload exists. Claims of uploads that were completed or
removed are deleted when the account claims the next upload. So nobody has to release a claim, and
a crash leaves no claim that is valid.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from odf_protocol.multihash import Multihash

from ..ports.values import AccountId, ObjectKey
from . import files
from .layout import BEGUN, KIND_FOLDERS, UPLOADS, dataset_folder, parse_folder, parse_name

Judge = Callable[[int, int], None]
"""Gets the number and total bytes of the account's other claims; raises to refuse a new one."""
_KINDS = {folder: kind for kind, folder in KIND_FOLDERS.items()}


class Claims:
    """Claims below the store `root`; `partial_of` returns the path of an upload's partial file."""

    def __init__(self, root: Path, partial_of: Callable[[ObjectKey], Path]) -> None:
        self._root, self._partial_of = root / UPLOADS / BEGUN, partial_of

    def claim(self, account: AccountId, key: ObjectKey, total: int, judge: Judge) -> None:
        """Claim an upload of `total` bytes and begin it; claiming it again does nothing.

        Claims of one account are serialized. If `judge` raises, nothing is claimed.
        """
        own = self._root / str(Multihash.of(account.encode())) / _name(key)
        partial = self._partial_of(key)
        if _bytes_of(own) == total and partial.exists():
            return
        files.make_folder(own.parent, durable=False)
        with files.writing_to(own.parent), files.folder_lock(own.parent, alone=True):
            others = [size for path, size in self._alive(own.parent) if path != own]
            judge(len(others), sum(others))
            _begin(partial)
            files.write_text(own, str(total), durable=False)

    def _alive(self, folder: Path) -> Iterator[tuple[Path, int]]:
        """Yield the valid claims and their bytes; delete the others."""
        for path in [Path(entry.path) for entry in os.scandir(folder)]:
            key = _key(path.name)
            if key is None or not self._partial_of(key).exists():
                path.unlink(missing_ok=True)
            else:
                yield path, _bytes_of(path) or 0


def _begin(partial: Path) -> None:
    """Create the partial file, which makes the claim valid."""
    files.make_folder(partial.parent, durable=False)
    with files.writing_to(partial.parent):
        partial.open("ab").close()


def _name(key: ObjectKey) -> str:
    return f"{dataset_folder(key.dataset)}-{KIND_FOLDERS[key.kind]}-{key.hash}"


def _key(name: str) -> ObjectKey | None:
    folder, _, rest = name.partition("-")
    kind, _, text = rest.partition("-")
    dataset = parse_folder(folder)
    object_hash = parse_name(text)
    if dataset is None or kind not in _KINDS or object_hash is None:
        return None
    return ObjectKey(dataset, _KINDS[kind], object_hash)


def _bytes_of(path: Path) -> int | None:
    text = files.read_text(path)
    return int(text) if text is not None and text.isdigit() else None
