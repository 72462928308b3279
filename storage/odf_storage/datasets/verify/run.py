"""Verify a dataset: every byte, every rule and every row, without executing anything.

Three passes: back from the head, hashing every block; forward again, checking the rules of the
chain (breaking a rule that only this project has is a warning); then the data blocks, newest
first: size, physical hash, logical hash, number of rows and offset column of each slice, size
and hash of each checkpoint. Each problem is a line of the report. Large objects are not kept in
memory. The first two passes follow the chain, block by block; the last one is done in splits
(`stages.py`), in threads or by another runner of the caller, with the same report.

Rules need the whole chain, so an interval of blocks restricts the last pass only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from odf_protocol.chain.definition_rules import ChainRuleBroken
from odf_protocol.chain.rules import RuleOrigin
from odf_protocol.chain.rules import report as broken_rules
from odf_protocol.chain.schema_evolution import declared_links
from odf_protocol.codec.blocks import decode_block, peek_block
from odf_protocol.errors import BadInput, NotFound
from odf_protocol.metadata.events import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    HashedBlock,
    Seed,
    SetDataSchema,
    SetVocab,
)
from odf_protocol.multihash import Multihash

from ...stores.index.named_objects import named_objects
from ...stores.objects.layout import object_path
from ...stores.ports.values import ObjectKind
from ..dataset.dataset import InvalidInterval
from ..job_payloads.verify_job import BLOCK_NOT_FOUND, CheckedBlock, kind_of_block
from ..job_payloads.verify_job import VerifyProblem as Problem
from ..job_payloads.verify_job import VerifyReport as VerifyReport
from .data import DataBlock, check_blocks, described, splits_of
from .linked import check_linked
from .objects import Checks
from .source import ChainSource as ChainSource
from .source import DatasetSource as DatasetSource
from .source import FolderSource as FolderSource
from .stages import Where, in_threads

MAX_PROBLEMS = 10_000
"""Limit of problems that a report lists."""
KEPT_BLOCK_BYTES = 64 << 20
"""Limit of the bytes of blocks that the first pass keeps for the second, since reading a block
from a bucket is a round trip. The second pass reads other blocks again."""
DEFAULT_OFFSET_COLUMN = "offset"

Progress = Callable[[str, int, int], None]
"""Called with phase (`blocks`, `rules`, `objects`), steps done and total steps (0: unknown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Data blocks to check: those after `after`, up to and including `upto`."""

    after: Multihash | None = None
    upto: Multihash | None = None


EVERYTHING = Interval()


@dataclass
class _Findings:
    """Everything that was found so far."""

    source: ChainSource
    progress: Progress | None
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    data: list[DataBlock] = field(default_factory=list)
    checked: list[CheckedBlock] = field(default_factory=list)
    links: dict[str, None] = field(default_factory=dict)
    """Columns that any schema declares as links, in their order: rows keep their links when a later
    schema declares none."""
    seed: Seed | None = None
    blocks: int = 0
    objects: int = 0
    size: int = 0
    records: int = 0
    kept: dict[Multihash, bytes] = field(default_factory=dict)
    kept_bytes: int = 0

    def block_bytes(self, block: Multihash) -> bytes:
        """Return the bytes of a block, from memory or the source. Raises as the source does."""
        raw = self.kept.get(block)
        if raw is None:
            raw = self.source.block_bytes(block)
            if self.kept_bytes + len(raw) <= KEPT_BLOCK_BYTES:
                self.kept[block] = raw
                self.kept_bytes += len(raw)
        return raw

    def add(self, *problems: Problem) -> None:
        self.problems.extend(problems[: max(0, MAX_PROBLEMS - len(self.problems))])

    def step(self, phase: str, done: int, total: int = 0) -> None:
        if self.progress is not None:
            self.progress(phase, done, total)


def verify_chain(
    source: ChainSource,
    *,
    objects: bool = True,
    logical: bool = True,
    interval: Interval = EVERYTHING,
    progress: Progress | None = None,
    where: Where = in_threads,
) -> VerifyReport:
    """Verify a dataset. `objects=False`: the chain only; `logical=False`: without rows. `where`
    chooses the runner of the checks of objects; the report does not depend on it.

    Problems of the dataset are in the report, not raised. Raises the errors of `source.head()` if
    there is no dataset, errors of the access to the source, and `InvalidInterval` if the blocks of
    the interval are not in this order in a complete chain.
    """
    findings = _Findings(source, progress)
    head = source.head()
    path, sound, whole = _walk_back(findings, head)
    wanted = _within(path, interval, whole=whole)
    blocks = _forward(findings, path, wanted, sound=sound)
    if sound:
        for broken in broken_rules(blocks, limit=MAX_PROBLEMS):
            if broken.origin == RuleOrigin.OURS:
                findings.warnings.append(_broken_rule(broken))
            else:
                findings.add(_broken_rule(broken))
    for _ in blocks:  # the check of rules may stop early; later checks need all blocks
        pass
    findings.kept.clear()
    if objects:
        _check_data(findings, where, logical=logical)
    else:
        findings.checked = [described(block) for block in reversed(findings.data)]
    return VerifyReport(
        head=str(head),
        dataset_id=None if findings.seed is None else str(findings.seed.dataset_id),
        blocks=findings.blocks,
        objects=findings.objects,
        size=findings.size,
        records=findings.records,
        problems=tuple(findings.problems),
        notes=tuple(findings.notes),
        warnings=tuple(findings.warnings),
        data_blocks=tuple(findings.checked),
    )


# --- the chain ------------------------------------------------------------------------------


def _walk_back(findings: _Findings, head: Multihash) -> tuple[list[Multihash], bool, bool]:
    """Return the hashes from the head to the first block, newest first, whether all bytes are
    right, and whether the first block was reached."""
    path: dict[Multihash, None] = {}
    newest_first: deque[list[Problem]] = deque(maxlen=MAX_PROBLEMS)
    following: Multihash | None = head
    number: int | None = None
    damaged = False
    while following is not None and following not in path:
        block, problem = _read_block(findings.block_bytes, following, number)
        if problem is not None:
            # the hash of a missing block may itself be from a damaged block
            if damaged and problem.kind == BLOCK_NOT_FOUND:
                newest_first[-1].append(problem)
            else:
                newest_first.append([problem])
        damaged = problem is not None
        if block is None:
            break
        path[following] = None
        findings.step("blocks", len(path))
        following, number = block.prev, block.sequence_number - 1
    for problems in reversed(newest_first):
        findings.add(*problems)
    findings.blocks = len(path)
    return list(path), not newest_first, following is None


def _read_block(
    read: Callable[[Multihash], bytes], block_hash: Multihash, number: int | None
) -> tuple[HashedBlock | None, Problem | None]:
    """Return the block, None if it cannot be read, and its problem, if any."""
    try:
        raw = read(block_hash)
    except NotFound:
        message = "the block is not there"
        return None, _block_problem(block_hash, number, BLOCK_NOT_FOUND, message)
    actual, block, unreadable = Multihash.of(raw), None, None
    try:
        block = decode_block(raw)
        # the number of the head is only known from the block
        number = block.sequence_number if number is None else number
    except BadInput as error:
        number = _said_number(raw) if number is None else number
        unreadable = _block_problem(block_hash, number, error.code, error.message)
    if actual != block_hash:
        message = f"the block's bytes hash to {actual}"
        return block, _block_problem(block_hash, number, "HashMismatch", message)
    return block, unreadable


def _said_number(raw: bytes) -> int | None:
    """Return the sequence number of a block whose event cannot be read; None if it has none."""
    try:
        return peek_block(raw).sequence_number
    except BadInput:
        return None


def _within(newest_first: list[Multihash], interval: Interval, *, whole: bool) -> set[Multihash]:
    """Return the blocks of the interval; of an incomplete chain, those that were found.

    Raises:
        InvalidInterval: in a complete chain, a block is missing or the order is another.
    """
    position = {block: at for at, block in enumerate(newest_first)}
    head = interval.upto or (newest_first[0] if newest_first else None)
    start = position.get(head, len(position)) if head is not None else 0
    end = len(position) if interval.after is None else position.get(interval.after, len(position))
    unknown = [
        block for block in (interval.upto, interval.after) if block and block not in position
    ]
    if whole and (unknown or end < start):
        raise InvalidInterval(interval.upto or newest_first[0], interval.after or unknown[0])
    return set(newest_first[start:end])


def _forward(
    findings: _Findings, newest_first: list[Multihash], wanted: set[Multihash], *, sound: bool
) -> Iterator[HashedBlock]:
    """Yield the blocks again, oldest first, and record what later checks need."""
    offset_column = DEFAULT_OFFSET_COLUMN
    for done, block_hash in enumerate(reversed(newest_first), 1):
        block, _ = _read_block(findings.block_bytes, block_hash, None)
        if block is None:  # changed since the walk back
            return
        event = block.event
        if isinstance(event, Seed):
            findings.seed = event
        elif isinstance(event, SetVocab):
            offset_column = event.offset_column or DEFAULT_OFFSET_COLUMN
        elif isinstance(event, SetDataSchema):
            findings.links |= dict.fromkeys(declared_links(event))
        elif isinstance(event, AddData | ExecuteTransform) and block_hash in wanted:
            known = offset_column if sound else None
            entry = DataBlock(block_hash, block.sequence_number, event, known)
            findings.data.append(entry)
        findings.step("rules", done, len(newest_first))
        yield block


def _broken_rule(broken: ChainRuleBroken) -> Problem:
    return _block_problem(broken.block, broken.sequence_number, broken.code, broken.reason)


def _block_problem(block: Multihash, number: int | None, reason: str, message: str) -> Problem:
    return Problem(
        kind=kind_of_block(reason),
        reason=reason,
        message=message,
        block=str(block),
        sequence_number=number,
        path=str(object_path(ObjectKind.BLOCK, block)),
    )


# --- objects --------------------------------------------------------------------------------


def _check_data(findings: _Findings, where: Where, *, logical: bool) -> None:
    newest_first = list(reversed(findings.data))
    named = [each for entry in newest_first for each in named_objects(entry.event)]
    runner = where(findings.source, sum(each.size for each in named))
    kind: DatasetKind | None = None if findings.seed is None else findings.seed.dataset_kind
    stage = partial(check_blocks, Checks(kind=kind, logical=logical))
    splits = splits_of(newest_first, logical=logical, width=runner.width)
    for group in runner.run(stage, splits):
        for of_block in group:
            findings.objects += of_block.objects
            findings.size += of_block.size
            findings.records += of_block.records
            findings.add(*of_block.problems)
            findings.notes += of_block.notes
            findings.warnings += of_block.warnings
            findings.checked.append(of_block.checked)
            findings.step("objects", findings.objects, len(named))
    for size, problem in check_linked(runner, tuple(findings.links), newest_first):
        findings.objects += 1
        findings.size += size
        if problem is not None:
            findings.add(problem)
        findings.step("objects", findings.objects, 0)
