"""The ports: interfaces to what stands in several forms, objects and files of other programs.

All calls are synchronous, and several threads and processes may make them at the same time.
Tests in `tests/conformance` check every promise below on every adapter, and also those of the
stores that have only one form, in SQL: their classes are named and described where they are
written, in `odf_storage/stores/index`, `jobs` and `registers`. Beside the ports stand the values
that both take and return, and `odf_storage/stores/ports/errors.py` declares what they raise.
"""

from .blocks import BlockIndex
from .keyed import KeyedReads, KeyedStore
from .objects import LocalPaths, Objects, ObjectStore, PartialUploads

__all__ = [
    "BlockIndex",
    "KeyedReads",
    "KeyedStore",
    "LocalPaths",
    "ObjectStore",
    "Objects",
    "PartialUploads",
]
