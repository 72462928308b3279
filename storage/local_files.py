"""Objects as files: in place where the store keeps files, else copied."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import BinaryIO

from protocol.multihash import Multihash

from .dataset import Dataset
from .values import ObjectKind

COPY_BYTES = 1 << 20


def local_file(dataset: Dataset, kind: ObjectKind, content: Multihash, folder: Path) -> Path:
    """The object as a file: in place if the store keeps files, else a copy in `folder`.

    Raises:
        ObjectNotFound: the dataset has no such object.
    """
    copy = folder / str(content)
    if copy.exists():
        return copy
    with dataset.open_object(kind, content) as stream:
        place = _place(stream)
        if place is not None:
            return place
        folder.mkdir(parents=True, exist_ok=True)
        partial = copy.with_suffix(".part")
        with partial.open("wb") as out:
            shutil.copyfileobj(stream, out, COPY_BYTES)
        partial.replace(copy)
    return copy


def _place(stream: BinaryIO) -> Path | None:
    name = getattr(stream, "name", None)
    if isinstance(name, str) and Path(name).is_file():
        return Path(name).absolute()
    return None
