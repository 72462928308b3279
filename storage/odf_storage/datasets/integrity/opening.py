"""The one way to the bytes of an object for code that computes with them or shows them.

This process hashed the bytes just now, or as recently as `Hashed` remembers. An object that is
damaged, or missing though a block names it, is healed on the spot if a source at hand has it
(`healing.py`); otherwise the read is refused by an error that names it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash

from ...stores.ports import LocalPaths
from ...stores.ports.errors import ObjectNotFound
from ...stores.ports.values import ObjectKey, ObjectKind
from .healing import (
    DAMAGED,
    MISSING,
    HealingStores,
    ObjectDamaged,
    hash_of_stream,
    heal_or_refuse,
    identity_of,
    identity_of_file,
    is_remote,
)

SPOOL_BYTES = 16 << 20
"""Copies up to this size in bytes stay in memory."""
T = TypeVar("T")


def open_hashed(stores: HealingStores, key: ObjectKey, *, named: bool | None = None) -> BinaryIO:
    """Open the object at its begin, with random access, after its bytes were hashed.

    `named`: a block names the object, so its absence is damage too; the default is true for all but
    uploads.

    Raises:
        ObjectNotFound: it is absent, and not `named`.
        ObjectDamaged, ObjectHealing: it is not whole, and no source at hand has it.
    """
    return _whole(stores, key, named, lambda stream: _opened(stores, key, stream))


def ensure_hashed(stores: HealingStores, key: ObjectKey, *, named: bool | None = None) -> None:
    """Check the object as `open_hashed` does, without keeping it open."""
    _whole(stores, key, named, lambda stream: _ensured(stores, key, stream))


def copy_hashed(stores: HealingStores, key: ObjectKey, target: Path) -> Path:
    """Return the object as a hashed file: that of a local store, else a copy at `target`."""
    local = stores.objects.local_paths
    if local is None:
        return _whole(stores, key, None, lambda stream: _copied(stores, key, stream, target))
    ensure_hashed(stores, key)
    return local.path(key).absolute()


def hashed_files(
    stores: HealingStores,
    local: LocalPaths,
    dataset: DatasetId,
    kind: ObjectKind,
    names: Iterable[Multihash],
) -> list[str]:
    """Return the paths of files of a local store, other than uploads, after their bytes were
    hashed. Only those are opened that were not hashed recently. Raises the same errors as
    `open_hashed`."""
    folder, found = local.folder(dataset, kind).absolute(), list[str]()
    for name in names:
        path = f"{folder}/{name}"
        if not _is_known(stores, name, path):
            ensure_hashed(stores, ObjectKey(dataset, kind, name))
        found.append(path)
    return found


def _is_known(stores: HealingStores, name: Multihash, path: str) -> bool:
    try:
        return stores.hashed.knows(name, identity_of_file(os.stat(path)))  # noqa: PTH116 - faster
    except OSError:  # whatever it is, opening the object says it
        return False


def is_whole_file(stores: HealingStores, path: Path, name: Multihash) -> bool:
    """Return whether a local copy still has the bytes of its hash."""
    try:
        with path.open("rb") as stream:
            identity = identity_of(stream)
            if not stores.hashed.knows(name, identity):
                if hash_of_stream(stream) != name:
                    return False
                stores.hashed.note(name, identity)
    except FileNotFoundError:
        return False
    return True


def _whole(
    stores: HealingStores,
    key: ObjectKey,
    named: bool | None,
    use: Callable[[BinaryIO], T | None],
) -> T:
    """Return what `use` makes of the opened object. `use` returns None if the bytes are wrong."""
    if named is None:
        named = key.kind is not ObjectKind.UPLOAD
    for _ in range(2):  # first as stored, then as healed
        problem = DAMAGED
        try:
            stream = stores.objects.open(key)
        except ObjectNotFound:
            if not named:
                raise
            problem = MISSING
        else:
            try:
                found = use(stream)
            except BaseException:
                stream.close()
                raise
            if found is not None:
                return found
            stream.close()
        heal_or_refuse(stores, key, problem)
    raise ObjectDamaged(key, problem)


def _opened(stores: HealingStores, key: ObjectKey, stream: BinaryIO) -> BinaryIO | None:
    identity = identity_of(stream)
    if stores.hashed.knows(key.hash, identity):
        return stream
    copy = None
    if is_remote(stream) or not stream.seekable():
        copy = cast("BinaryIO", tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES))  # noqa: SIM115
    actual = hash_of_stream(stream, copy.write if copy is not None else lambda _: None)
    if actual != key.hash:
        if copy is not None:
            copy.close()
        return None
    stores.hashed.note(key.hash, identity)
    if copy is None:
        stream.seek(0)
        return stream
    stream.close()
    copy.seek(0)
    return copy


def _ensured(stores: HealingStores, key: ObjectKey, stream: BinaryIO) -> bool | None:
    with stream:
        identity = identity_of(stream)
        if stores.hashed.knows(key.hash, identity):
            return True
        if hash_of_stream(stream) != key.hash:
            return None
        stores.hashed.note(key.hash, identity)
        return True


def _copied(stores: HealingStores, key: ObjectKey, stream: BinaryIO, target: Path) -> Path | None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".part")
    with stream, partial.open("wb") as out:
        actual = hash_of_stream(stream, out.write)
    if actual != key.hash:
        partial.unlink()
        return None
    partial.replace(target)
    stores.hashed.note(key.hash, identity_of_file(target.stat()))
    return target
