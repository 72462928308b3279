"""A dataset as a table for Arrow, pandas, Polars, DuckDB; its history, changes and verification.

Optional libraries, imported when a call needs them; an error names a missing one.

Copies of datasets: pull them into a folder, push them to a node, verify them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from odf_protocol.errors import BadInput
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import Visibility

from ..client.nodes.limits import MOST_TAKEN_BACK
from ..client.nodes.remotes import ODF, Location, Repositories, Transfer
from ..client.nodes.repositories import Repository
from ..client.proofs.attestations import give
from ..client.proofs.provenance import why_everywhere
from ..client.transfer import sync
from ..client.transfer.receive import ChainReader, Outcome
from ..client.transfer.sync import opened
from ..client.uses.event_texts import block_data
from ..service.read.read import CHANGELOG, ReadRequest
from .following import (
    Changes,
    Following,
    FromChain,
    FromNode,
    Position,
    Rows,
    RowSource,
    StreamPlace,
    changes_since,
    place_of,
)
from .publish import Receipt, standing

if TYPE_CHECKING:
    from typing import Unpack

    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from odf_storage.datasets.job_payloads.verify_job import VerifyReport

    from ..client.proofs.trust import HeadFinding


class MissingLibrary(ImportError):
    """A library that this call needs is not installed."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{what} needs {name}: pip install {name}", name=name)


def library(name: str, what: str) -> Any:
    """Import the module of that name. Raises `MissingLibrary`."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != name:
            raise
        raise MissingLibrary(name, what) from None


Time = str | datetime
"""A text in the format of RFC 3339, or a time with a zone."""
FOLLOWED_ROWS = 1_000_000
"""Default limit of the rows in memory at once while a dataset is followed."""
ProjectionName = Literal["changelog", "state", "facts"]


class Selection(TypedDict, total=False):
    """Rows and columns to read; by default all columns of the current rows."""

    columns: Sequence[str]
    """Only these columns, in this order."""
    filter: str | Sequence[str]
    """`column:operator:value`, in the syntax of `GET read?filter=`; rows must satisfy all of
    several filters. The reader skips slices that cannot contain such a row."""
    as_of: Time
    """Events up to this event time, corrections folded."""
    changelog: bool
    """Every row as it was written, with those that were retracted or corrected since; the same as
    `projection="changelog"`."""
    projection: ProjectionName
    """`facts`: current rows, those that were neither retracted nor corrected; `state`: the last
    row of each primary key; `changelog`: every row. By default the facts."""
    skip: int
    """Number of rows to skip first."""
    limit: int
    """Limit of rows."""


class Dataset:
    """A dataset in a folder, a bucket, or at a URL. Create it with `odf_node.open`.

    It keeps nothing in memory or open between two calls; each call reads as of the newest block,
    unless the dataset was opened `at` one.
    """

    def __init__(
        self,
        place: StreamPlace,
        source: RowSource,
        at: str | None,
        log: HeadLogCheck | None = None,
    ) -> None:
        self._place, self._source, self._at, self._log = place, source, at, log

    def __repr__(self) -> str:
        at = "" if self._at is None else f", at={self._at!r}"
        return f"odf_node.open({str(self._place.location)!r}{at})"

    @property
    def checked(self) -> HeadFinding | None:
        """What the log of heads of the node said of the head at the last read or verification:
        `checked.verdict.word`, `checked.text`. None: nothing was checked yet, or it is on no node
        and without `verify=True` not checked."""
        return None if self._log is None else self._log.found

    @property
    def info(self) -> dict[str, Any]:
        """What is known of the dataset as of its newest block: `description`, `license`,
        `keywords`, `records`, `updatedAt`, `schema` and more; a node also says `alias` and `kind`.
        Raises the errors of `batches`."""
        return self._source.facts()

    def _repr_html_(self) -> str:
        from .notebook import card_html

        return card_html(self)

    @property
    def schema(self) -> pa.Schema:
        """Columns, including system columns, with their Arrow types."""
        with self.batches(limit=0, changelog=True) as rows:
            return rows.reader.schema

    @property
    def block(self) -> str:
        """Hash of the block as of which rows are read now."""
        with self.batches(limit=0, changelog=True) as rows:
            return rows.block

    @contextmanager
    def batches(self, **selection: Unpack[Selection]) -> Iterator[Rows]:
        """Read rows as a stream of Arrow batches, which need not fit into memory.

        Raises:
            BadInput: an unknown column or projection, a malformed filter or a value that does not
                fit its column, a state without a primary key.
            NotFound: the dataset does not exist or may not be seen; no such block.
            Damaged, HashMismatch: with `verify`, bytes that do not fit their hash.
            TransferFailed: the server or store does not answer, or not properly.
        """
        with self._source.rows(_request(self._at, selection)) as rows:
            yield rows

    def arrow(self, **selection: Unpack[Selection]) -> pa.Table:
        """Return the current rows as an Arrow table; its metadata names the block (`odf.block`)."""
        with self.batches(**selection) as rows:
            table = rows.reader.read_all()
        return table.replace_schema_metadata({"odf.block": rows.block})

    def pandas(self, **selection: Unpack[Selection]) -> pd.DataFrame:
        """Return the current rows as a pandas frame; `attrs["odf.block"]` names the block. Whole
        numbers with nulls are nullable integers such as `Int64`, which round nothing.

        Raises `BadInput` if pandas cannot hold a value. Also the errors of `batches`."""
        library("pandas", "Dataset.pandas")
        from .frames import frame_of

        table = self.arrow(**selection)
        frame = frame_of(table)
        frame.attrs["odf.block"] = table.schema.metadata[b"odf.block"].decode()
        return frame

    def polars(self, **selection: Unpack[Selection]) -> pl.DataFrame:
        """Return the current rows as a Polars frame; zones that are an offset become UTC.

        Raises `BadInput` if Polars has no type for a column. Also the errors of `batches`."""
        polars = library("polars", "Dataset.polars")
        from .frames import for_polars

        frame: pl.DataFrame = polars.from_arrow(for_polars(self.arrow(**selection)))
        return frame

    def duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None, **selection: Unpack[Selection]
    ) -> duckdb.DuckDBPyRelation:
        """Return the current rows as a DuckDB relation of the connection, by default that of
        DuckDB. Warns of instants that lose digits below a microsecond.

        Raises `BadInput` if DuckDB has no type for a column. Also the errors of `batches`."""
        default = library("duckdb", "Dataset.duckdb")
        from .frames import relation_of

        return relation_of(connection or default, self.arrow(**selection))

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return blocks, newest first, each checked against its hash: number, time, event, hash."""
        with opened(self._place.location, self._place.token, whole=limit is None) as repository:
            chain = ChainReader(repository)
            return [block_data(block) for block in islice(chain.back(repository.head()), limit)]

    def changes(self, since: Position | str | int = 0, *, limit: int | None = None) -> Changes:
        """Return rows from a position on, as they were written, and the next position.

        `since` is an offset, or the `position` of earlier changes, which can also be given as text.
        `limit` is the largest number of rows; the next call continues at the new position.

        Raises:
            HistoryReplaced: the block of the position is no longer in the chain.
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
        """Yield changes from a position on: first the existing ones, then new ones as they arrive.

        A node sends events; the heads of folders and buckets are polled. The iteration continues
        after broken connections and restarts, and yields each row once, in order. Other threads can
        end it with `stop()`.

        Args:
            since: as in `changes`; each of the changes has the `position` from which to continue.
            timeout: seconds without news after which the iteration ends; by default it does not.
                0: only the existing changes.
            poll: seconds between two checks of the head; also needed for a server that is not a
                node.
            limit: largest number of rows at once.

        Raises:
            HistoryReplaced: the block of the last position is no longer in the chain.
            NothingToFollow: the dataset was opened `at` a block. Also the errors of `batches`.
        """
        if self._at is not None:
            raise BadInput("NothingToFollow", f"{self!r} does not change; open it without at=")
        position = Position.of(since)
        return Following(
            self._place, self._source, position, timeout_s=timeout, poll_s=poll, limit=limit
        )

    def retract(
        self,
        *,
        key: Mapping[str, Any] | None = None,
        filter: str | Sequence[str] = (),  # noqa: A002 - as of `batches`
        offsets: Sequence[int] = (),
        dry_run: bool = False,
        most: int = MOST_TAKEN_BACK,
    ) -> Receipt:
        """Take current rows back: those that have these values (`key`), these offsets and satisfy
        these filters. They stay in the history.

        Args:
            dry_run: have the node check the retractions, and commit nothing.
            most: refuse to take back more rows.

        Raises:
            NoRowsNamed, NoSuchRows, TooManyRows. NothingToFollow: the dataset was opened `at` a
            block. RequestRefused: a row was changed meanwhile. Also the errors of `batches`.
        """
        if self._at is not None:
            raise BadInput("NothingToFollow", f"{self!r} does not change; open it without at=")
        filters = (filter,) if isinstance(filter, str) else tuple(filter)
        found = standing(self._place, filters=filters, key=key, offsets=offsets, most=most)
        return Receipt.of(found.take_back(dry_run=dry_run))

    def why(
        self,
        offset: int | None = None,
        *,
        key: Sequence[str] = (),
        columns: Sequence[str] = (),
        depth: int | Literal["all"] = 1,
        after: str | None = None,
        here: bool = False,
    ) -> dict[str, Any]:
        """Return why a row is there: its block and source, or the query and the rows of the inputs
        from which a node computed it. The members are described in `docs/provenance.md`. Where the
        node lacks inputs, the node from which it pulls is asked with the token that is stored for
        it.

        Args:
            key: in place of an offset, the values of the primary key, for the newest row with it.
            columns: the columns of interest; by default all.
            depth: number of steps from row to row, the row itself included; or `all`.
            after: the `next` of an answer, whose rows go on behind those of that answer.
            here: ask no other node.

        Raises:
            UnsupportedUrl: the dataset is not on a node. NothingThere: there is no such row.
            RequestRefused: an unknown column, a wrong depth.
        """
        if not self._place.is_served:
            raise BadInput(
                "UnsupportedUrl",
                f"a node answers this, http(s)://…; {self._place.location} is none",
                url=str(self._place.location),
            )
        return why_everywhere(
            self._place.location.base,
            self._place.token,
            None if here else Repositories().token_at,
            depth=depth,
            offset=offset,
            key=list(key) or None,
            column=list(columns) or None,
            at=self._at,
            after=after,
        )

    def verify(self, *, rows: bool = True) -> VerifyReport:
        """Hash every block and slice, check the chain against its rules, and with `rows` hash every
        row. A dataset on a node that was opened with `verify=True` is checked against its log, too.

        Raises:
            LogContradicted: as `open` says.
        """
        from odf_storage.datasets.verify.run import verify_chain

        with opened(self._place.location, self._place.token, whole=True) as repository:
            report = verify_chain(repository, objects=True, logical=rows)
            if self._log is not None:
                self._log(repository, Multihash.parse(report.head))
        return report


def open_dataset(
    where: str | os.PathLike[str],
    *,
    token: str | None = None,
    at: Time | None = None,
    verify: bool = False,
    fresh: str | None = None,
    policy: Path | None = None,
) -> Dataset:
    """Return a dataset at a URL, in a folder or bucket, or REPOSITORY/[ACCOUNT/]NAME.

    Args:
        where: `http(s)://…`, `odf+http(s)://…`, `s3://…`, a folder, or the name of a repository
            (see `odf-node repo`) and of a dataset in it.
        token: for a private dataset; default: the repository's, `ODF_NODE_TOKEN`, or a login's.
        at: read the dataset as of this block (its hash) or this system time.
        verify: for a dataset on a node, fetch chain and slices and hash them before rows are
            returned; otherwise the node reads, and sends only the requested rows. Folders and
            buckets are always read this way. The head is checked against the log of heads of the
            node, as `odf-node verify` does; rows as of an earlier block are not.
        fresh, policy: as `--fresh` and `--policy` of `odf-node verify`; with `verify`.

    Nothing is fetched yet. With `verify`, reads raise `LogContradicted` if the log does not vouch
    for the head.
    """
    place = place_of(where, token)
    checks = place.is_served and verify
    log = HeadLogCheck(place, fresh=fresh, policy=policy) if checks else None
    source = FromNode(place) if place.is_served and not verify else FromChain(place, log)
    return Dataset(place, source, None if at is None else _text(at), log)


class HeadLogCheck:
    """Checks heads of a dataset on a node against the log of heads of the node."""

    def __init__(self, place: StreamPlace, **wanted: Any) -> None:
        self._place, self._wanted = place, wanted
        self.found: HeadFinding | None = None

    def __call__(self, repository: Repository, head: Multihash) -> None:
        """Raises `LogContradicted`."""
        from ..client.proofs.trust import check_head, dataset_of

        location, token = self._place.location, self._place.token
        dataset = dataset_of(location, repository, head)
        self.found = check_head(location, dataset, head, token, **self._wanted)
        if self.found is not None:
            self.found.require()


def _request(at: str | None, selection: Selection) -> ReadRequest:
    columns, as_of = selection.get("columns"), selection.get("as_of")
    filters = selection.get("filter", ())
    return ReadRequest(
        as_at=at,
        as_of=None if as_of is None else _text(as_of),
        projection=_projection(selection),
        columns=None if columns is None else ",".join(columns),
        skip=selection.get("skip", 0),
        limit=selection.get("limit"),
        filters=(filters,) if isinstance(filters, str) else tuple(filters),
    )


def _projection(selection: Selection) -> str | None:
    named = selection.get("projection")
    if not selection.get("changelog"):
        return named
    if named not in (None, CHANGELOG):
        raise BadInput(
            "OtherProjection", f"changelog=True and projection={named!r}: give one of them"
        )
    return CHANGELOG


def _text(time: Time) -> str:
    if isinstance(time, str):
        return time
    if time.tzinfo is None:
        raise BadInput(
            "TimeWithoutZone", f"{time} has no zone; say tzinfo=datetime.UTC", time=str(time)
        )
    return time.isoformat()


__all__ = ["Outcome", "pull", "push", "verify"]


def pull(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    token: str | None = None,
    force: bool = False,
    fresh: str | None = None,
    policy: Path | None = None,
) -> Outcome:
    """Copy a dataset, or its new part, into a folder. Everything is checked by hash before it
    becomes visible there; then the head is checked against the log of heads of the node.

    `force` replaces a copy that has diverged; `fresh` and `policy` are those of `odf-node pull`.
    Raises the same errors as `odf-node pull`, `LogContradicted` after the folder has moved.
    """
    from ..client.proofs.trust import after_pull

    place = place_of(source, token)
    path = Path(folder)
    outcome = sync.pull(place.location, Location.parse(str(path)), token=place.token, force=force)
    wanted = {"fresh": fresh, "policy": policy}
    found = after_pull(place.location, path, outcome.new_head, place.token, **wanted)
    if found is not None:
        found.require()
    return outcome


def push(
    folder: str | os.PathLike[str],
    target: str,
    *,
    token: str | None = None,
    visibility: Literal["private", "public"] = "private",
    force: bool = False,
) -> Outcome:
    """Copy the dataset in a folder to a node, `http(s)://node/[account/]name`, or to a bucket.

    A dataset that does not exist there is created with the given visibility. `force` replaces a
    history that has diverged. Raises the same errors as `odf-node push`.
    """
    place = place_of(target, token)
    location = place.location
    if location.transfer is Transfer.SIMPLE:  # a node accepts writes only by the smart protocol
        location = Location.parse(ODF + str(location))
    outcome = sync.push(
        Location.parse(str(Path(folder))),
        location,
        token=place.token,
        visibility=Visibility(visibility.capitalize()),
        force=force,
    )
    if location.base:
        give(Path(folder), location, place.token)
    return outcome


def verify(
    where: str | os.PathLike[str], *, rows: bool = True, token: str | None = None
) -> VerifyReport:
    """Hash every block and slice of a dataset, and with `rows` also every row. See `report.ok`. The
    head of a dataset on a node is checked against the log of the node, as `open` does.

    Raises:
        LogContradicted: the log does not vouch for the head.
    """
    return open_dataset(where, token=token, verify=True).verify(rows=rows)
