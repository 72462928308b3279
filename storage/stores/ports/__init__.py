"""The ports: everything durable the rest of the node relies on, one module a concern.

All calls are synchronous and safe to make from several threads and processes. Every
promise below is a test in `tests/conformance`, run on every adapter. The errors named here
are declared in `storage/stores/ports/errors.py`.

A port has eight members at most. An adapter that is several ports at once has a name for the
whole as well, for those who open and hold it; those who use it name the part that they need.
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
from .overviews import OverviewReads, OverviewStore, OverviewWork
from .publications import (
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
