"""The first stage of a Batch: read its posts, each separately, as parallel partitions.

A post that cannot be read fails alone: the stage returns its error as a fact, and the other posts
continue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice

import pyarrow as pa
import pyarrow.compute as pc

from ..partitions.messages import Failure
from ..partitions.port import Partitions, Way
from ..readers.formats.splits import ReaderSplit
from ..readers.values.rejected import Rejected
from ..slices.conform import NullCounts
from .facts import NONE_AHEAD, Ahead, ReadFacts
from .read import PostRead, read_part


@dataclass(frozen=True, slots=True, kw_only=True)
class PostRows:
    """Facts about one post that was read; its rows are in the partitions of its Batch."""

    facts: tuple[ReadFacts, ...]
    """The facts of each partition of the post."""
    rejected: Rejected | None = None
    failure: Failure | None = None
    """The first error in the post, which fails it."""

    @property
    def rows(self) -> int:
        """Number of good rows."""
        return sum(each.rows_read for each in self.facts)

    @property
    def size(self) -> int:
        return sum(each.size for each in self.facts)

    @property
    def starts(self) -> tuple[int, ...]:
        """Number of rows of the post that were read before each partition."""
        return (0, *accumulate(each.rows_read for each in self.facts))[:-1]

    def number_of(self, position: int) -> int:
        """Return the number in the input, from 1, of the good row at a position."""
        return position + 1 if self.rejected is None else self.rejected.number_of(position)

    @property
    def schema(self) -> pa.Schema | None:
        """Schema of the slices; None if the post is empty or fails, so that no schema is known."""
        return next((each.schema for each in self.facts if each.schema is not None), None)

    @property
    def columns(self) -> tuple[str, ...]:
        return next(each.columns for each in self.facts if each.schema is not None)

    @property
    def ahead(self) -> Ahead:
        return sum((each.ahead for each in self.facts), NONE_AHEAD)

    @property
    def warnings(self) -> tuple[str, ...]:
        return _warnings(self.facts)

    @property
    def ascends(self) -> bool:
        """Whether the rows ascend by event time, over all partitions."""
        return _ascends(self.facts)

    @property
    def samples(self) -> tuple[pa.Table, ...]:
        return tuple(
            _positioned(each.samples, start)
            for each, start in zip(self.facts, self.starts, strict=True)
            if each.samples is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """Rows of the posts of a Batch, post by post, before they are merged."""

    posts: tuple[PostRows, ...]
    partitions: Partitions


def read(way: Way, posts: Sequence[PostRead], splits: Sequence[Sequence[ReaderSplit]]) -> ReadRows:
    """Read the rows of posts, each from the splits of its file. If a post cannot be read, its
    `PostRows` has the error.

    Raises:
        TooManyBadRows, UnexpectedNulls: over all splits of a post.
    """
    parts = [(number, split) for number, of in enumerate(splits) for split in of]
    partitions = way.read(parts, partial(read_part, tuple(posts)))
    told = iter([found for each in partitions.facts() for found in each])
    found = [list(islice(told, len(of))) for of in splits]
    return ReadRows(
        posts=tuple(_post_rows(post, facts) for post, facts in zip(posts, found, strict=True)),
        partitions=partitions,
    )


def _post_rows(post: PostRead, facts: Sequence[ReadFacts]) -> PostRows:
    failed = next((at for at, each in enumerate(facts) if each.failure is not None), None)
    if failed is not None:
        _rejected(post.max_bad_rows, facts[: failed + 1])  # too many may be bad before the error
        return PostRows(facts=tuple(facts), failure=facts[failed].failure)
    found = PostRows(facts=tuple(facts), rejected=_rejected(post.max_bad_rows, facts))
    if found.schema is not None:
        nulls = NullCounts(found.schema)
        for each in facts:
            if each.nulls_found is not None:
                nulls.follow(each.nulls_found)
        nulls.check()
    return found


def _positioned(keys: pa.Table, before: int) -> pa.Table:
    """Make positions, the last column of the keys, count from the beginning of the whole input."""
    at = keys.num_columns - 1
    return keys.set_column(at, keys.field(at), pc.add(keys.column(at), before))


def _rejected(most: int | None, facts: Sequence[ReadFacts]) -> Rejected | None:
    """Join the rejected rows of all splits, numbered by their position in the input."""
    if most is None:
        return None
    every, before = Rejected(most), 0
    for each in facts:
        every.follow(each.rejected, before)
        before += each.rows_read + len(each.rejected)
    return every


def _warnings(facts: Sequence[ReadFacts]) -> tuple[str, ...]:
    """Return warnings for the publisher; those about field names need the names of all records."""
    remarks = [text for each in facts for text in each.remarks]
    names = [each.names for each in facts if each.names is not None]
    if not names:
        said = [text for each in facts for text in each.warnings]
        return tuple(dict.fromkeys([*said, *remarks]))
    for other in names[1:]:
        names[0].follow(other)
    return tuple(dict.fromkeys([*names[0].warnings(), *remarks]))


def _ascends(facts: Sequence[ReadFacts]) -> bool:
    """Whether event times ascend over all splits, and either all rows or none have one."""
    latest: int | None = None
    for each in facts:
        if not each.ascends or (
            latest is not None and each.first is not None and each.first < latest
        ):
            return False
        latest = latest if each.last is None else each.last
    return sum(each.nulls for each in facts) in (0, sum(each.rows_read for each in facts))
