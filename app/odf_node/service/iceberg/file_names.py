"""Names of generated files of a table. A name determines the content of its file, which never
changes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from odf_protocol.errors import NotFound


class Kind(StrEnum):
    """The kind of a file, which determines the numbers in its name."""

    METADATA = "table"
    """Table metadata. The number is the count of versions."""
    SNAPSHOT = "snapshot"
    """The list of manifests of a version. The number is that version."""
    DATA = "data"
    """A manifest of slices. The numbers are the group, and the count of its versions."""
    DELETES = "deletes"
    """A manifest of delete files. The numbers are the version and the group."""
    ROWS = "rows"
    """The deleted rows of a slice. The numbers are the version, and the version of the slice."""


_NUMBERS = {Kind.METADATA: 1, Kind.SNAPSHOT: 1, Kind.DATA: 2, Kind.DELETES: 2, Kind.ROWS: 2}
_ENDS = {Kind.METADATA: "metadata.json", Kind.ROWS: "parquet"}
_AVRO = "avro"
_NAME = re.compile(
    r"(table|snapshot|data|deletes|rows)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"-(0|[1-9][0-9]{0,11})(?:-(0|[1-9][0-9]{0,11}))?\.(avro|parquet|metadata\.json)",
    re.ASCII,
)


class NoSuchTableFile(NotFound):
    """The name is not that of a file of a table with the current history of the dataset."""

    def __init__(self) -> None:
        super().__init__(
            "there is no such file; the history of the dataset may have been replaced, then load "
            "the table again"
        )


@dataclass(frozen=True, slots=True)
class FileName:
    """The parsed name of a file. `identity` is the identity of the table."""

    kind: Kind
    identity: str
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        told = "-".join(str(each) for each in self.numbers)
        return f"{self.kind}-{self.identity}-{told}.{_ENDS.get(self.kind, _AVRO)}"

    @classmethod
    def parse(cls, text: str) -> FileName:
        """Parse a name. Raises `NoSuchTableFile`."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise NoSuchTableFile
        numbers = tuple(int(each) for each in match.groups()[2:4] if each is not None)
        name = cls(Kind(match[1]), match[2], numbers)
        if len(numbers) != _NUMBERS[name.kind] or str(name) != text:
            raise NoSuchTableFile
        return name
