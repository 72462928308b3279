"""Paths of the objects in a local folder, for readers that need files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from odf_protocol.identity import DatasetId

from ..ports.values import ObjectKey, ObjectKind
from .layout import KIND_FOLDERS, dataset_path, store_name


@dataclass(frozen=True, slots=True)
class FolderPaths:
    """`LocalPaths` below `root`."""

    root: Path

    def path(self, key: ObjectKey) -> Path:
        return Path(f"{self.root}/{store_name(key)}")

    def folder(self, dataset: DatasetId, kind: ObjectKind) -> Path:
        return self.root / dataset_path(dataset) / KIND_FOLDERS[kind]
