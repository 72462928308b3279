"""What outcomes of the version before left out: branches of errors, and whether to try again.

Jobs are kept for weeks, and workers of the version before go on while a node is upgraded. Nothing
is added here: newer outcomes carry both. This is the only place of the service that names errors of
workers, and goes away with the next version.
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
    """Whether trying again may help after an error that does not say so; None: by its status."""
    return _RETRYABLE.get(error)


def older_branch(error: str) -> str:
    """The branch of an error that is told without one; empty for one that no version told."""
    return _BRANCHES.get(error, "")
