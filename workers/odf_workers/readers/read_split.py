"""Read one split of a file as a frame, with the reader of its format.

The bytes of a split are first copied to a new file, after the header if there is one: readers
read files from their beginning, and copying is cheap compared with reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from msgspec import structs

from odf_protocol.errors import NodeError
from odf_protocol.metadata.reading import ReadStep, ReadStepCsv

from ..partitions.files import File, at_hand
from ..partitions.messages import gathered
from ..runtime.content import Content, Enclosed, opened
from ..slices.frame import BadRow, Frame, Limits
from .known import Known
from .parquet import read_parquet
from .read import READERS, open_frame, schema_of
from .rejected import Rejected, TooManyBadRows
from .splits import Split
from .table_files import naming

COPY_BYTES = 1 << 20
_LINE = re.compile(r"\bline (\d+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRead:
    """How to read the splits of a file. `schema` is None if there is only one split."""

    step: ReadStep
    limits: Limits
    schema: pa.Schema | None = None
    known: Known | None = None
    names_columns: bool = False


@contextmanager
def open_split(read: SplitRead, split: Split, rejected: Rejected | None) -> Iterator[Frame | None]:
    """Yield a frame of the split's rows. Errors have positions in the original file.

    Raises the same errors as `open_frame` and its batches.
    """
    if split.then:
        yield open_splits(read, (replace(split, then=()), *split.then), rejected)
        return
    try:
        with _alone(split, _here(split.file)) as content:
            yield _frame(read, split, content, rejected)
    except NodeError as bad:
        if split.part is not None:
            raise naming(bad, split.part.key) from None
        raise _moved(bad, split.lines) from None


def _frame(
    read: SplitRead, split: Split, content: Content, rejected: Rejected | None
) -> Frame | None:
    if split.groups is not None or split.part is not None:
        return read_parquet(
            read.step,  # type: ignore[arg-type]
            content,
            read.schema if split.part is None else schema_of(read.step),
            read.limits,
            rejected,
            read.known,
            groups=split.groups,
            before=split.rows,
            part=split.part,
        )
    if split.is_whole:
        return open_frame(read.step, content, read.limits, rejected, read.known)
    step = _with_header(read.step) if read.names_columns else read.step
    return READERS[type(step)](step, content, read.schema, read.limits, rejected, read.known)


def open_splits(read: SplitRead, splits: Sequence[Split], rejected: Rejected | None) -> Frame:
    """Read the rows of several parts of one table, one after the other. Raises the same errors as
    `open_split`."""

    def batches() -> Iterator[pa.RecordBatch]:
        for split in splits:
            with open_split(read, split, rejected) as frame:
                yield from () if frame is None else frame.batches

    with open_split(read, splits[0], None) as first:
        schema = pa.schema([]) if first is None else first.schema
    return Frame(schema, gathered(batches()))


def _with_header(step: ReadStep) -> ReadStep:
    return structs.replace(step, header=True) if isinstance(step, ReadStepCsv) else step


def _here(file: File | Enclosed) -> Content:
    return file if isinstance(file, Enclosed) else at_hand(file)


@contextmanager
def _alone(split: Split, file: Content) -> Iterator[Content]:
    """Yield a file with only the bytes of the split; a whole file or row groups are read in
    place."""
    if split.is_whole or split.groups is not None:
        yield file
        return
    with TemporaryDirectory(prefix="split-") as folder:
        path = Path(folder) / "rows"
        _copy(split, file, path)
        yield path


def _copy(split: Split, file: Content, path: Path) -> None:
    with opened(file) as source, path.open("wb") as target:
        target.write(split.head)
        source.seek(split.start)
        left = (split.end or 0) - split.start
        while left > 0 and (chunk := source.read(min(left, COPY_BYTES))):
            target.write(chunk)
            left -= len(chunk)


def _moved(bad: NodeError, lines: int) -> NodeError:
    """Add the number of lines before the split to an error's line; `Rejected` has added it to its
    own."""
    if not lines or isinstance(bad, TooManyBadRows):
        return bad
    if isinstance(bad, BadRow):
        return bad.moved(lines)
    bad.args = (_LINE.sub(lambda at: f"line {int(at[1]) + lines}", bad.message, count=1),)
    if "line" in bad.facts:
        bad.facts["line"] = int(str(bad.facts["line"])) + lines
    return bad
