"""Names of files that are made of a table: what a name says decides the bytes, once and for all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from odf_node.protocol.errors import NotFound


class Kind(StrEnum):
    """What is in a file, and which numbers its name has."""

    METADATA = "table"
    """How many versions."""
    SNAPSHOT = "snapshot"
    """The version: the list of its manifests."""
    DATA = "data"
    """Group, and how many of its versions: a manifest."""
    DELETES = "deletes"
    """Version, group: a manifest."""
    ROWS = "rows"
    """Version, and the version of the slice: the rows of it that are deleted."""


_NUMBERS = {Kind.METADATA: 1, Kind.SNAPSHOT: 1, Kind.DATA: 2, Kind.DELETES: 2, Kind.ROWS: 2}
_ENDS = {Kind.METADATA: "metadata.json", Kind.ROWS: "parquet"}
_AVRO = "avro"
_NAME = re.compile(
    r"(table|snapshot|data|deletes|rows)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"-(0|[1-9][0-9]{0,11})(?:-(0|[1-9][0-9]{0,11}))?\.(avro|parquet|metadata\.json)",
    re.ASCII,
)


class NoSuchTableFile(NotFound):
    """No file of a table, or none of the history that the dataset has now."""

    def __init__(self) -> None:
        super().__init__(
            "there is no such file; the history of the dataset may have been replaced, then load "
            "the table again"
        )


@dataclass(frozen=True, slots=True)
class FileName:
    """The name of a file, in pieces. `identity` is that of the table."""

    kind: Kind
    identity: str
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        told = "-".join(str(each) for each in self.numbers)
        return f"{self.kind}-{self.identity}-{told}.{_ENDS.get(self.kind, _AVRO)}"

    @classmethod
    def parse(cls, text: str) -> FileName:
        """Raises `NoSuchTableFile`."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise NoSuchTableFile
        numbers = tuple(int(each) for each in match.groups()[2:4] if each is not None)
        name = cls(Kind(match[1]), match[2], numbers)
        if len(numbers) != _NUMBERS[name.kind] or str(name) != text:
            raise NoSuchTableFile
        return name
