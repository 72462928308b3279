"""The report of a verification: problems by kind, the result for each data block, totals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from odf_protocol.typed import convert

from ...stores.ports.values import ObjectKind

BLOCK_MALFORMED, BLOCK_NOT_FOUND, BLOCK_VERSION = "BlockMalformed", "BlockNotFound", "BlockVersion"
NOT_REPRODUCIBLE, NOT_VERIFIABLE = "DataNotReproducible", "NotVerifiable"
KIND_OF_OBJECT = {
    ObjectKind.DATA: "DataDoesNotMatchMetadata",
    ObjectKind.CHECKPOINT: "CheckpointDoesNotMatchMetadata",
}
_KIND_OF_REASON = {"BlockNotFound": BLOCK_NOT_FOUND, "UnsupportedBlockVersion": BLOCK_VERSION}

LISTS = ("problems", "notes", "warnings", "data_blocks")
"""Names of the lists of a report."""
VALID, DAMAGED, UNCLEAR = "valid", "damaged", "unclear"
REPRODUCED, NOT_REPRODUCED, CANNOT_TELL = "reproduced", "not-reproduced", "not-verifiable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem, or (among the notes) a question that could not be decided."""

    kind: str
    """Kind of failure, by the names of other ODF nodes, such as `DataDoesNotMatchMetadata`."""
    reason: str
    """The exact reason, such as `PhysicalHashMismatch`."""
    message: str
    block: str | None = None
    sequence_number: int | None = None
    path: str | None = None
    """Path of the object, below the dataset's folder."""
    expected: Any = None
    actual: Any = None
    """`expected` is the recorded event and `actual` the repeated one, if an execution gave another
    result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedBlock:
    """The result for one data block."""

    block: str
    sequence_number: int
    event: str
    records: int = 0
    size: int = 0
    """Bytes of the objects it names."""
    objects: str | None = None
    """`valid`, `damaged` or `unclear`; None if its objects were not checked."""
    replay: str | None = None
    """`reproduced`, `not-reproduced` or `not-verifiable`; None if it was not executed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """Totals of what was verified, and what is wrong with it. Sizes are in bytes."""

    head: str
    dataset_id: str | None = None
    blocks: int
    objects: int
    size: int
    records: int
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    """Differences that do not prove damage."""
    warnings: tuple[Problem, ...] = ()
    """Broken rules that only this project has, so that the writer need not know them, and values
    that it would not store: the bytes are the declared ones."""
    data_blocks: tuple[CheckedBlock, ...] = ()
    """Data blocks of the requested interval, newest first."""

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_data(self) -> dict[str, Any]:
        """Return JSON-compatible data, with keys as in the JSON of this node."""
        return {"ok": self.ok, **_camel(asdict(self))}


def kind_of_block(reason: str) -> str:
    """Return the kind of a problem with a block."""
    return _KIND_OF_REASON.get(reason, BLOCK_MALFORMED)


def _camel(value: Any) -> Any:
    """Convert the keys to those of the JSON of this node: `sequence_number` → `sequenceNumber`."""
    if isinstance(value, dict):
        return {_camel_key(key): _camel(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_camel(item) for item in value]
    return value


def report_of(data: dict[str, Any]) -> VerifyReport:
    """Parse the data of `VerifyReport.to_data`. Raise `msgspec.ValidationError`."""
    plain = {_snake_key(key): value for key, value in data.items() if key != "ok"}
    for name in LISTS:
        plain[name] = [
            {_snake_key(key): value for key, value in item.items()} for item in plain.get(name, ())
        ]
    return convert(plain, VerifyReport)


def _snake_key(key: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in key)


def _camel_key(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(part.capitalize() for part in rest)
