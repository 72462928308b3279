"""The ports: everything durable the rest of the node relies on, one module a concern.

All calls are synchronous and safe to make from several threads and processes. Every
promise below is a test in `tests/conformance`, run on every adapter. The errors named here
are declared in `storage/errors.py`.
"""

from .accounts import AccountStore, AuditLog, DeviceLogins, RoleStore
from .damages import DamageLog
from .following import DefinitionAuthors, DerivationStore, MirrorStore
from .index import BlockIndex, DatasetRegistry, RefIndex
from .jobs import JobQueue
from .objects import LocalPaths, ObjectStore, PartialUploads
from .publishing import Schedules, UploadedFiles, Variables

__all__ = [
    "AccountStore",
    "AuditLog",
    "BlockIndex",
    "DamageLog",
    "DatasetRegistry",
    "DefinitionAuthors",
    "DerivationStore",
    "DeviceLogins",
    "JobQueue",
    "LocalPaths",
    "MirrorStore",
    "ObjectStore",
    "PartialUploads",
    "RefIndex",
    "RoleStore",
    "Schedules",
    "UploadedFiles",
    "Variables",
]
