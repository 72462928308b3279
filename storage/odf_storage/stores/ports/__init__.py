"""The ports: interfaces to everything durable that the node relies on, one module per concern.

All calls are synchronous, and several threads and processes may make them at the same time.
Tests in `tests/conformance` check every promise below on every adapter.
`odf_storage/stores/ports/errors.py` declares the errors named here.

A port has at most eight members. Where one adapter implements several ports, one more port
combines them: code that opens or owns the adapter names the combined port, and code that uses
the adapter names only the part that it needs.
"""

from .accounts import (
    Accounts,
    AccountStore,
    AuditLog,
    DeviceLogins,
    Identities,
    RoleChanges,
    RoleReads,
    RoleStore,
    Tokens,
)
from .damages import DamageLog
from .following import (
    DefinitionAuthors,
    DerivationCursor,
    Derivations,
    DerivationStore,
    MirrorChanges,
    MirrorReads,
    MirrorStore,
)
from .index import (
    BlockIndex,
    BlocksBehind,
    DatasetChanges,
    DatasetEntries,
    DatasetInputs,
    DatasetRegistry,
    HeadMoves,
    Heads,
    RefIndex,
)
from .jobs import JobClaims, JobQueue, JobRecords, JobSubmissions
from .keyed import KeyedReads, KeyedStore, KeyedWrites
from .objects import (
    DatasetNotes,
    LocalPaths,
    LocatedObjects,
    ObjectLifetimes,
    Objects,
    ObjectStore,
    ObjectUrls,
    PartialUploads,
)
from .publications import (
    OverviewReads,
    OverviewStore,
    OverviewWork,
    PublicationChanges,
    PublicationReads,
    PublicationStore,
    PublicationWork,
)
from .publishing import Schedules, UploadedFiles, Variables
from .webhooks import WebhookChanges, WebhookReads, WebhookStore, WebhookWork

__all__ = [
    "AccountStore",
    "Accounts",
    "AuditLog",
    "BlockIndex",
    "BlocksBehind",
    "DamageLog",
    "DatasetChanges",
    "DatasetEntries",
    "DatasetInputs",
    "DatasetNotes",
    "DatasetRegistry",
    "DefinitionAuthors",
    "DerivationCursor",
    "DerivationStore",
    "Derivations",
    "DeviceLogins",
    "HeadMoves",
    "Heads",
    "Identities",
    "JobClaims",
    "JobQueue",
    "JobRecords",
    "JobSubmissions",
    "KeyedReads",
    "KeyedStore",
    "KeyedWrites",
    "LocalPaths",
    "LocatedObjects",
    "MirrorChanges",
    "MirrorReads",
    "MirrorStore",
    "ObjectLifetimes",
    "ObjectStore",
    "ObjectUrls",
    "Objects",
    "OverviewReads",
    "OverviewStore",
    "OverviewWork",
    "PartialUploads",
    "PublicationChanges",
    "PublicationReads",
    "PublicationStore",
    "PublicationWork",
    "RefIndex",
    "RoleChanges",
    "RoleReads",
    "RoleStore",
    "Schedules",
    "Tokens",
    "UploadedFiles",
    "Variables",
    "WebhookChanges",
    "WebhookReads",
    "WebhookStore",
    "WebhookWork",
]
