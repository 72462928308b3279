"""Slices of a dataset's history, and files of them that Spark can read.

The list of slices is remembered by head, so that the next ingest reads new blocks only.
"""

from __future__ import annotations

import shutil
from collections import OrderedDict
from pathlib import Path
from typing import BinaryIO

from protocol.metadata.data import DataSlice
from protocol.metadata.events import AddData, ExecuteTransform
from protocol.multihash import Multihash
from storage.dataset import Dataset, InvalidInterval
from storage.layout import KIND_FOLDERS, dataset_folder
from storage.values import ObjectKind

from .engine.exchange import remember

COPY_BYTES = 1 << 20
REMEMBERED_DATASETS = 256


class SliceLists:
    """All slices of a dataset as of a head, oldest first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Multihash, tuple[DataSlice, ...]]] = OrderedDict()

    def of(self, dataset: Dataset, head: Multihash) -> tuple[DataSlice, ...]:
        known_head, slices = self._known.get(str(dataset.id), (None, ()))
        if known_head != head:
            try:
                blocks = dataset.blocks(after=known_head, upto=head)
            except InvalidInterval:  # the head was moved somewhere else
                blocks, slices = dataset.blocks(upto=head), ()
            added = (b.event for b in blocks if isinstance(b.event, AddData | ExecuteTransform))
            slices += tuple(event.new_data for event in added if event.new_data is not None)
            self._known[str(dataset.id)] = (head, slices)
        self._known.move_to_end(str(dataset.id))
        while len(self._known) > REMEMBERED_DATASETS:
            self._known.popitem(last=False)
        return slices


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
    if kind in KIND_FOLDERS:  # executors elsewhere read the object itself
        remember(copy, f"{dataset_folder(dataset.id)}/{KIND_FOLDERS[kind]}/{content}")
    return copy


def _place(stream: BinaryIO) -> Path | None:
    name = getattr(stream, "name", None)
    if isinstance(name, str) and Path(name).is_file():
        return Path(name).absolute()
    return None
