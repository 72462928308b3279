"""Faults of a Kartothek dataset. Each error names the key of the file and the reason."""

from __future__ import annotations

from ..errors import BadInput, NotFound


class BadKartothek(BadInput):
    """A file of a dataset is not what the format says it must be."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key[:300]}: {reason}", key=key[:300], reason=reason)
        self.key, self.reason = key, reason


class MalformedUuid(BadKartothek):
    """A dataset uuid is empty or has other characters than `A-Z a-z 0-9 + _ -`."""


class MalformedState(BadKartothek):
    """A state file cannot be read, or contains what the format does not allow."""


class MalformedSchemaFile(BadKartothek):
    """A schema file is not a Parquet file, or is too large."""


class MalformedIndex(BadKartothek):
    """An index file cannot be used; readers then ignore the index."""


class ForbiddenKey(BadKartothek):
    """A key leads out of the store, or is one that no store can have."""


class NotParquet(BadKartothek):
    """A data file has another format."""


class MalformedPartition(BadKartothek):
    """The partition columns in a file key differ from those of other keys, or have no value."""


class TypeConflict(BadKartothek):
    """A data file has a column of another kind than the schema file declares."""


class UnreadableDataFile(BadKartothek):
    """A data file is not a Parquet file, or is damaged."""


class TableNotChosen(BadKartothek):
    """A dataset of several tables needs the name of a table, or lacks the named table."""


class MalformedPredicate(BadInput):
    """A predicate has an unknown column, or a value that the column cannot have."""


class UnsupportedColumn(BadInput):
    """A Kartothek dataset, index or partition cannot have a column of this type."""


class KartothekFileMissing(NotFound):
    """A file that the dataset needs is not in the store."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key[:300]}: {reason}", key=key[:300], reason=reason)
        self.key = key


class NoKartothek(NotFound):
    """The store has no dataset of this uuid."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"the store has no Kartothek dataset {uuid[:300]!r}", uuid=uuid[:300])
