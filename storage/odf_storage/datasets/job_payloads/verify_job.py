"""The contract of a verification job: payload and result.

The job verifies each named dataset, and repeats the executions of derivatives. With a
`candidate` it verifies blocks that are stored but not in the chain yet, and moves the head
to them if they are valid. With a `gate` it hashes rows that are committed already.

The report of a verification: problems by kind, the result for each data block, totals.

A verification as text: a line for each problem and, if `verbose`, for each block; totals.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import msgspec
from msgspec import Struct

from odf_protocol.typed import convert

from ...stores.ports.values import ObjectKind
from ..contents.slice_limits import GateLimits
from .ingest_job import RanReceipt

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
class VerifyProblem:
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
    problems: tuple[VerifyProblem, ...] = ()
    notes: tuple[VerifyProblem, ...] = ()
    """Differences that do not prove damage."""
    warnings: tuple[VerifyProblem, ...] = ()
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


KIND = "verify"
MAX_LISTED = 1000
"""Limit of the problems, notes, warnings and data blocks (each) that a result lists per dataset."""


class VerifyPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to verify. Hashes and ids are text."""

    objects: bool = True
    rows: bool = True
    replay: bool = True
    after: str | None = None
    upto: str | None = None
    inputs: tuple[str, ...] = ()
    """Ids of other datasets to verify completely before this one: inputs the caller may see."""
    candidate: str | None = None
    """Block that becomes the head if it is valid."""
    expected: str | None = None
    """Head that the candidate was pushed onto."""
    force: bool = False
    """Let the candidate replace any head."""
    gate: GateLimits | None = None
    """Only hash the rows of received slices, within these limits."""
    requested_by: str | None = None


class VerifiedDataset(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result for one dataset."""

    id: str
    alias: str
    ok: bool
    replayed: int
    """Number of executions that gave the recorded result."""
    not_verifiable: int
    """Number of executions that could not be repeated here."""
    engines: tuple[str, ...]
    report: dict[str, Any]
    """As `odf-node verify --json` prints it."""
    error: str | None = None
    """Why the dataset could not be verified, if it could not."""
    ran: RanReceipt | None = None
    """Where its objects were verified, if they were."""


class VerifyAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The results for all datasets that were verified, inputs first."""

    ok: bool
    head: str | None
    """Head of the dataset of the job."""
    datasets: tuple[VerifiedDataset, ...]


def to_json(value: VerifyPayload | VerifyAnswer) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> VerifyPayload:
    return convert(value, VerifyPayload)


def answer_of(value: dict[str, Any]) -> VerifyAnswer:
    return convert(value, VerifyAnswer)


def listed(report: VerifyReport) -> dict[str, Any]:
    """Return the report as JSON, with at most `MAX_LISTED` entries in each list."""
    data = report.to_data()
    for name in ("problems", "notes", "warnings", "dataBlocks"):
        data[name] = data[name][:MAX_LISTED]
    return data


MAX_LINE = 1000


def report_text(report: VerifyReport, *, verbose: bool = False) -> str:
    """Return the report on one dataset as text."""
    lines = [_block_line(block) for block in reversed(report.data_blocks)] if verbose else []
    lines += [_line(problem) for problem in report.problems]
    lines += ["note: " + _line(note) for note in report.notes]
    lines += ["warning: " + _line(warning) for warning in report.warnings]
    verdict = "valid" if report.ok else f"NOT VALID, {len(report.problems)} problem(s)"
    lines.append(
        f"{verdict}: {report.blocks} block(s), {report.objects} object(s), "
        f"{report.records} record(s), {report.size} bytes\nhead {report.head}"
    )
    return "\n".join(lines)


def answer_text(answer: VerifyAnswer, *, verbose: bool = False) -> str:
    """Return the results for a dataset, and for its inputs if they were verified, as text."""
    return "\n".join(_dataset_text(found, verbose=verbose) for found in answer.datasets)


def _dataset_text(found: VerifiedDataset, *, verbose: bool) -> str:
    name = _one_line(found.alias or found.id)
    if found.error is not None:
        return f"{name}: {_one_line(found.error)}"
    lines = [f"{name}:", report_text(report_of(found.report), verbose=verbose)]
    if found.replayed or found.not_verifiable:
        by = _one_line(", ".join(found.engines)) or "nobody"
        lines.append(
            f"{found.replayed} execution(s) made again with the same result by {by}, "
            f"{found.not_verifiable} not verifiable here"
        )
    return "\n".join(lines)


def _block_line(block: CheckedBlock) -> str:
    verdicts = " ".join(part for part in (block.objects, block.replay) if part) or "not looked at"
    return (
        f"#{block.sequence_number} {block.block} {block.event}: {verdicts}, "
        f"{block.records} record(s), {block.size} bytes"
    )


def _line(problem: VerifyProblem) -> str:
    number = "" if problem.sequence_number is None else f"#{problem.sequence_number} "
    parts = [part for part in (problem.block, problem.path) if part]
    kinds = (problem.kind,) if problem.kind == problem.reason else (problem.kind, problem.reason)
    return _one_line(f"{', '.join(kinds)}: {number}{' '.join(parts)}: {problem.message}")


def _one_line(text: str) -> str:
    """Replace characters that could move a terminal's cursor: the text may be from strangers."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return shown if len(shown) <= MAX_LINE else shown[: MAX_LINE - 1] + "…"
