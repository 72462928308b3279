"""Which uploads each account has begun and not ended: a file a claim, in a folder an account.

    uploads/.begun/<hash of the account>/<dataset>-<kind>-<hash>
                                           the size that was announced, as text

A claim counts as long as its upload is here in part; those of uploads that ended, or were cleared
away, go when the account claims the next. So nobody has to take a claim back, and a crash leaves
none behind that counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from odf_node.protocol.multihash import Multihash

from ..ports.values import AccountId, ObjectKey
from . import files
from .layout import BEGUN, KIND_FOLDERS, UPLOADS, dataset_folder, parse_folder, parse_name

Judge = Callable[[int, int], None]
"""Is given number and bytes of the other claims of an account, and raises to refuse one more."""
_KINDS = {folder: kind for kind, folder in KIND_FOLDERS.items()}


class Claims:
    """Claims below the store `root`; `partial_of` says where the part of an upload lies."""

    def __init__(self, root: Path, partial_of: Callable[[ObjectKey], Path]) -> None:
        self._root, self._partial_of = root / UPLOADS / BEGUN, partial_of

    def claim(self, account: AccountId, key: ObjectKey, total: int, judge: Judge) -> None:
        """Claim an upload of `total` bytes, which has begun then; once more does nothing.

        Accounts claim one after the other. What `judge` raises is raised, and nothing claimed.
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
        """Claims that count, and their bytes; the others go."""
        for path in [Path(entry.path) for entry in os.scandir(folder)]:
            key = _key(path.name)
            if key is None or not self._partial_of(key).exists():
                path.unlink(missing_ok=True)
            else:
                yield path, _bytes_of(path) or 0


def _begin(partial: Path) -> None:
    """Let there be something that the claim is for."""
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
