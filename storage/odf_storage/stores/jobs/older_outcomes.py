"""Facts that outcomes of the previous version lack: the branch of the error, and retryability.

Jobs are kept for weeks, and workers of the previous version keep running while a node is upgraded.
Do not extend these tables: newer outcomes carry both facts. No other module of the service names
errors of workers. This module is removed with the next version.
"""

from __future__ import annotations

_LEAVES = {
    "BadInput": """
        BadInputSchema BadRow CannotMerge EngineFailed IncompatibleSchema InvalidQuery QueryTooSlow
        InvalidSetting NotIncremental ForeignState MalformedJob MalformedParquet MalformedShapefile
        NotARootDataset NotVerifiable SnapshotNotWhole SourceNotFound TooManyBadRows
        SubPathNotFound RowsVanished SchemaNotKnown TransformNotDefined UnexpectedNulls Unsupported
        UnsupportedByEngine UnsupportedEngine EntryNotFound EventTimeNotFound ExpansionTooLong
        InvalidParameterFormat InvalidPattern MalformedArchive MalformedSource PipeFailed
        PipeRefused SourceRefused ValueNotFound DanglingReference InvalidValue UnsupportedColumn
        UnsupportedSchema DdlSyntax NotHashable
    """,
    "Conflict": "InvalidInputInterval NotValidated JobLost",
    "LimitExceeded": "InputTooLarge DecompressionTooLarge FetchedTooLarge",
    "RemoteFailed": """
        EngineNotStarted ContainerBrokeProtocol ContainerFailed SourceMissing SourceUnreachable
    """,
    "Unavailable": "StoreUnavailable DatabaseUnavailable",
}
_BRANCHES = {leaf: branch for branch, leaves in _LEAVES.items() for leaf in leaves.split()}


_RETRYABLE = {"EngineFailed": True, "JobLost": True, "JobAbandoned": False}


def older_retryable(error: str) -> bool | None:
    """Return whether a retry may help after an older error; None if its HTTP status decides."""
    return _RETRYABLE.get(error)


def older_branch(error: str) -> str:
    """Return the branch of an error that was stored without one; empty if the error is unknown."""
    return _BRANCHES.get(error, "")
