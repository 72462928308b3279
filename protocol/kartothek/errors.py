"""What can be wrong with a Kartothek dataset. Each error names the key and the reason."""

from __future__ import annotations

from ..errors import BadInput, NotFound


class BadKartothek(BadInput):
    """A file of a dataset is not what the format says it must be."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key[:300]}: {reason}", key=key[:300], reason=reason)
        self.key, self.reason = key, reason


class MalformedUuid(BadKartothek):
    """A dataset uuid has other characters than `A-Z a-z 0-9 + _ -`, or none."""


class MalformedState(BadKartothek):
    """A state file that cannot be read, or that says what the format does not allow."""


class MalformedSchemaFile(BadKartothek):
    """A schema file that is no Parquet file, or that is too large."""


class MalformedIndex(BadKartothek):
    """An index file that cannot be used; readers then do without it."""


class ForbiddenKey(BadKartothek):
    """A key that leaves the store, or that no store can have."""


class NotParquet(BadKartothek):
    """A data file of another format."""


class MalformedPartition(BadKartothek):
    """Partition columns of a file key that differ from the others, or that have no value."""


class TypeConflict(BadKartothek):
    """A data file holds a column of another kind than the schema file says."""


class UnreadableDataFile(BadKartothek):
    """A data file that is no Parquet file, or that is damaged."""


class TableNotChosen(BadKartothek):
    """A dataset of several tables, and none is named; or one is named that it does not have."""


class MalformedPredicate(BadInput):
    """A predicate on an unknown column, or with a value that the column cannot have."""


class UnsupportedColumn(BadInput):
    """A column of a type that a Kartothek dataset, index or partition cannot have."""


class KartothekFileMissing(NotFound):
    """A file that the dataset needs is not in the store."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key[:300]}: {reason}", key=key[:300], reason=reason)
        self.key = key


class NoKartothek(NotFound):
    """The store has no dataset of this uuid."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"the store has no Kartothek dataset {uuid[:300]!r}", uuid=uuid[:300])
