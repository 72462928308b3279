"""A dataset as a table: Arrow, pandas, Polars, DuckDB; its history; what is new; verification."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from odf_node.protocol.errors import BadInput

from ..client.event_lines import block_data
from ..client.sync import opened
from ..client.walk import ChainReader
from ..service.read.read import ReadRequest
from .changes import Changes, Position, changes_since
from .following import Following, NothingToFollow
from .libraries import library
from .place import Place, place_of
from .rows import FromChain, FromNode, Rows, RowSource

if TYPE_CHECKING:
    from typing import Unpack

    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from odf_node.storage.datasets.job_payloads.verify_report import VerifyReport

Time = str | datetime
"""An RFC 3339 text, or a time with a zone."""
FOLLOWED_ROWS = 1_000_000
"""Rows that are in memory at once while a dataset is followed, if nothing else is said."""
ProjectionName = Literal["changelog", "state", "facts"]


class TimeWithoutZone(BadInput):
    """A time that does not say in which zone it is."""


class Selection(TypedDict, total=False):
    """Which rows and columns are read; everything if nothing is said."""

    columns: Sequence[str]
    """Only these, in this order."""
    filter: str | Sequence[str]
    """`column:operator:value`, as `GET read?filter=` has it; of several, all are true of each row.
    A node, or the reader of a folder, opens no slice that cannot hold such a row."""
    as_of: Time
    """Events up to this event time, corrections folded."""
    projection: ProjectionName
    """`changelog`: every row; `state`: the last row of each primary key; `facts`: rows that were
    not taken back. By default the changelog, with `as_of` the facts."""
    skip: int
    """Rows that are left out first."""
    limit: int
    """Most rows."""


class Dataset:
    """A dataset in a folder, a bucket, or at a URL. Make one with `odf_node.open`.

    Nothing is kept in memory or open between two calls; each call reads as of the newest block,
    unless the dataset was opened `at` one.
    """

    def __init__(self, place: Place, source: RowSource, at: str | None) -> None:
        self._place, self._source, self._at = place, source, at

    def __repr__(self) -> str:
        at = "" if self._at is None else f", at={self._at!r}"
        return f"odf_node.open({str(self._place.location)!r}{at})"

    @property
    def schema(self) -> pa.Schema:
        """Columns, system columns included, with their Arrow types."""
        with self.batches(limit=0) as rows:
            return rows.reader.schema

    @property
    def block(self) -> str:
        """Hash of the block as of which rows are read now."""
        with self.batches(limit=0) as rows:
            return rows.block

    @contextmanager
    def batches(self, **selection: Unpack[Selection]) -> Iterator[Rows]:
        """Rows as a stream of Arrow batches, which need not fit into memory.

        Raises:
            BadInput: an unknown column or projection, a filter that is none or has a value that is
                none of its column, a state without a primary key.
            NotFound: no dataset there, or none that may be seen; no such block.
            Damaged, HashMismatch: with `verify`, bytes that do not fit their hash.
            TransferFailed: the place does not answer, or not as it should.
        """
        with self._source.rows(_request(self._at, selection)) as rows:
            yield rows

    def arrow(self, **selection: Unpack[Selection]) -> pa.Table:
        """All rows as an Arrow table; its metadata names the block (`odf.block`)."""
        with self.batches(**selection) as rows:
            table = rows.reader.read_all()
        return table.replace_schema_metadata({"odf.block": rows.block})

    def pandas(self, **selection: Unpack[Selection]) -> pd.DataFrame:
        """All rows as a pandas frame; `attrs["odf.block"]` names the block."""
        library("pandas", "Dataset.pandas")
        table = self.arrow(**selection)
        frame: pd.DataFrame = table.replace_schema_metadata(None).to_pandas()
        frame.attrs["odf.block"] = table.schema.metadata[b"odf.block"].decode()
        return frame

    def polars(self, **selection: Unpack[Selection]) -> pl.DataFrame:
        """All rows as a Polars frame."""
        polars = library("polars", "Dataset.polars")
        frame: pl.DataFrame = polars.from_arrow(self.arrow(**selection))
        return frame

    def duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None, **selection: Unpack[Selection]
    ) -> duckdb.DuckDBPyRelation:
        """All rows as a DuckDB relation of the connection, by default of DuckDB's own one."""
        default = library("duckdb", "Dataset.duckdb")
        relation: duckdb.DuckDBPyRelation = (connection or default).from_arrow(
            self.arrow(**selection)
        )
        return relation

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Blocks, newest first, each checked against its hash: number, time, event, hash."""
        with opened(self._place.location, self._place.token, whole=limit is None) as repository:
            chain = ChainReader(repository)
            return [block_data(block) for block in islice(chain.back(repository.head()), limit)]

    def changes(self, since: Position | str | int = 0, *, limit: int | None = None) -> Changes:
        """Rows behind a position, as they were written, and the position behind them.

        `since` is an offset, or the `position` of earlier changes, which is a text as well.
        `limit`: most rows; the next ones are those behind the new position.

        Raises:
            HistoryReplaced: the block of the position is not in the chain any more.
        """
        return changes_since(self._source, self._at, Position.of(since), limit=limit)

    def follow(
        self,
        since: Position | str | int = 0,
        *,
        timeout: float | None = None,
        poll: float | None = None,
        limit: int = FOLLOWED_ROWS,
    ) -> Following:
        """Changes behind a position as they come: first what is there, then what is new.

        A node is listened to; folders and buckets have their head looked at. It goes on over
        broken connections and restarts, and gives each row once, in order. For other threads
        there is `stop()`.

        Args:
            since: as for `changes`; each of the changes has the `position` to go on from.
            timeout: seconds without news after which the iteration ends; by default it does not.
                0: what is there already.
            poll: look at the head every so many seconds, at a server that is no node, too.
            limit: most rows at once.

        Raises:
            HistoryReplaced: when the block of the last position is not in the chain any more.
            NothingToFollow: the dataset was opened `at` a block. Else as `batches`.
        """
        if self._at is not None:
            raise NothingToFollow(f"{self!r} does not change; open it without at=")
        position = Position.of(since)
        return Following(
            self._place, self._source, position, timeout_s=timeout, poll_s=poll, limit=limit
        )

    def verify(self, *, rows: bool = True) -> VerifyReport:
        """Hash every block and slice, hold the chain to its rules; `rows`: also hash every row."""
        from odf_node.storage.datasets.verify.run import verify_chain

        with opened(self._place.location, self._place.token, whole=True) as repository:
            return verify_chain(repository, objects=True, logical=rows)


def open_dataset(
    where: str | os.PathLike[str],
    *,
    token: str | None = None,
    at: Time | None = None,
    verify: bool = False,
) -> Dataset:
    """A dataset at a URL, in a folder or bucket, or REPOSITORY/[ACCOUNT/]NAME.

    Args:
        where: `http(s)://…`, `odf+http(s)://…`, `s3://…`, a folder, or the name of a repository
            (see `odf-node repo`) and of a dataset in it.
        token: for a private dataset; default: the repository's, or `ODF_NODE_TOKEN`.
        at: read it as it was with this block (its hash) or at this system time.
        verify: of a dataset on a node, fetch chain and slices and hash them before rows are
            given; otherwise the node reads, and only the rows asked for travel. Folders and
            buckets are always read so.

    Nothing is fetched yet.
    """
    place = place_of(where, token)
    source = FromNode(place) if place.is_served and not verify else FromChain(place)
    return Dataset(place, source, None if at is None else _text(at))


def _request(at: str | None, selection: Selection) -> ReadRequest:
    columns, as_of = selection.get("columns"), selection.get("as_of")
    filters = selection.get("filter", ())
    return ReadRequest(
        as_at=at,
        as_of=None if as_of is None else _text(as_of),
        projection=selection.get("projection"),
        columns=None if columns is None else ",".join(columns),
        skip=selection.get("skip", 0),
        limit=selection.get("limit"),
        filters=(filters,) if isinstance(filters, str) else tuple(filters),
    )


def _text(time: Time) -> str:
    if isinstance(time, str):
        return time
    if time.tzinfo is None:
        raise TimeWithoutZone(f"{time} has no zone; say tzinfo=datetime.UTC", time=str(time))
    return time.isoformat()
