"""The layout of a store: the only module that turns keys into relative paths.

    <store>/
    ├─ datasets/
    │  └─ fed01…/                 base16 multibase of the dataset's id
    │     ├─ blocks/f1620…        one file per block, its bytes as received
    │     ├─ data/f1620…          Parquet slices, named by physical hash, no extension
    │     ├─ checkpoints/f1620…   engine state, named by physical hash
    │     ├─ refs/head            text of the hash of the newest block, no newline
    │     └─ info/                not part of the dataset
    │        ├─ alias             text of the alias, no newline
    │        └─ node              further facts of the index: visibility, time of creation
    ├─ projections/
    │  └─ fed01…/                 indices and published forms; can be rebuilt from the dataset
    ├─ uploads/
    │  ├─ fed01…/f1620….9f3a…     spooled request bodies, and which of several copies this is; not
    │  │                          part of the dataset
    │  └─ .begun/                 unfinished uploads of each account
    └─ quarantine/
       └─ fed01…/data/f1620…      objects found damaged, for inspection by a person

Below `fed01…` this is the layout of ODF: the simple transfer protocol serves exactly these
paths. Entries that start with `.` are writes in progress, and readers skip them. A dataset folder
without `refs/head` is garbage, not a dataset.

Names consist only of canonical hash and id texts and of the constants below, so no input
can name a path outside of its folder.
Source: ODF "Dataset layout".
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash, decode_multibase

from ..ports.errors import NotAPartOfADataset
from ..ports.values import ObjectKey, ObjectKind

DATASETS = "datasets"
UPLOADS = "uploads"
BEGUN = ".begun"
QUARANTINE = "quarantine"
PROJECTIONS = "projections"
HEAD = "head"
ALIAS = "alias"
MAX_INFO_BYTES = 1024
"""Limit in bytes of an alias or note that is read."""
SPOOLED = ".spooled"
"""Folder of uploads in a bucket. Not `.uploads`, because SeaweedFS uses that for multipart uploads
and hides it in listings."""
EXCHANGE = ".exchange"
"""Folder in a bucket for files that a worker and Spark's executors exchange."""
PENDING_PREFIX = ".pending-"
"""Prefix of the names of files that are being written."""

KIND_FOLDERS: dict[ObjectKind, str] = {
    ObjectKind.BLOCK: "blocks",
    ObjectKind.DATA: "data",
    ObjectKind.CHECKPOINT: "checkpoints",
}
_REF = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_COPY = re.compile("[0-9a-f]{16}")


class MalformedRef(BadInput):
    """The text is not the name of a reference: lower case letters, digits, `-` and `_`."""


def object_path(kind: ObjectKind, object_hash: Multihash) -> PurePosixPath:
    """Return the path of an object below its dataset's folder: `blocks/f1620…`.

    Raises:
        NotAPartOfADataset: uploads are stored outside of the dataset, see `store_path`.
    """
    if kind not in KIND_FOLDERS:
        raise NotAPartOfADataset(kind)
    return PurePosixPath(KIND_FOLDERS[kind], str(object_hash))


def ref_path(ref: str) -> PurePosixPath:
    """Return the path of a reference in its dataset's folder: `refs/head`. `MalformedRef`."""
    if _REF.fullmatch(ref) is None:
        raise MalformedRef(f"not the name of a reference: {ref[:100]!r}", ref=ref[:100])
    return PurePosixPath("refs", ref)


def info_path(name: str) -> PurePosixPath:
    """Return the path of a note in its dataset's folder: `info/alias`. Raises `MalformedRef`."""
    return PurePosixPath("info", ref_path(name).name)


def parse_folder(name: str) -> DatasetId | None:
    """Return the dataset whose folder has this name; None for any other name."""
    if not name.startswith("f"):
        return None
    try:
        parsed = DatasetId.decode(decode_multibase(name))
    except BadInput:
        return None
    return parsed if dataset_folder(parsed) == name else None


def dataset_folder(dataset: DatasetId) -> str:
    """Return the name of a dataset's folder: `fed01…`."""
    return dataset.multibase


def dataset_path(dataset: DatasetId) -> PurePosixPath:
    """Return the path of a dataset below the store: `datasets/fed01…`."""
    return PurePosixPath(DATASETS, dataset_folder(dataset))


def uploads_path(dataset: DatasetId) -> PurePosixPath:
    """Return the path of a dataset's uploads below the store: `uploads/fed01…`."""
    return PurePosixPath(UPLOADS, dataset_folder(dataset))


def quarantine_path(key: ObjectKey) -> PurePosixPath:
    """Return the path below the store to which a damaged object is moved."""
    folder = KIND_FOLDERS.get(key.kind, UPLOADS)
    return PurePosixPath(QUARANTINE, dataset_folder(key.dataset), folder, object_name(key))


def object_name(key: ObjectKey) -> str:
    """Return the name of an object in its folder: its hash, and `.` with the copy of an upload."""
    return f"{key.hash}.{key.copy}" if key.copy else str(key.hash)


def store_name(key: ObjectKey) -> str:
    """Return the path of any object below the store, as text."""
    folder = dataset_folder(key.dataset)
    if key.kind is ObjectKind.UPLOAD:
        return f"{UPLOADS}/{folder}/{object_name(key)}"
    return f"{DATASETS}/{folder}/{KIND_FOLDERS[key.kind]}/{key.hash}"


def store_path(key: ObjectKey) -> PurePosixPath:
    """Return the path of any object below the store."""
    return PurePosixPath(store_name(key))


def bucket_folder(dataset: DatasetId, kind: ObjectKind) -> str:
    """Return the folder in a bucket, below its prefix, of a dataset's objects of a kind."""
    folder = dataset_folder(dataset)
    if kind is ObjectKind.UPLOAD:
        return f"{SPOOLED}/{folder}"
    return f"{folder}/{KIND_FOLDERS[kind]}"


def bucket_name(key: ObjectKey) -> str:
    """Return the name of any object in a bucket, below its prefix."""
    return f"{bucket_folder(key.dataset, key.kind)}/{object_name(key)}"


def parse_name(name: str) -> Multihash | None:
    """Return the hash that a file is named by; None for any other name and hidden entries."""
    if name.startswith("."):
        return None
    try:
        parsed = Multihash.parse(name)
    except BadInput:
        return None
    return parsed if str(parsed) == name else None


def parse_object_name(dataset: DatasetId, kind: ObjectKind, name: str) -> ObjectKey | None:
    """Return the key of the object that has this name in the folder of its kind; None for any
    other name."""
    text, dot, copy = name.partition(".")
    object_hash = parse_name(text)
    if object_hash is None:
        return None
    if not dot:
        return ObjectKey(dataset, kind, object_hash)
    if kind is not ObjectKind.UPLOAD or _COPY.fullmatch(copy) is None:
        return None
    return ObjectKey(dataset, kind, object_hash, copy)
