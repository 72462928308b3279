"""Follow a dataset: yield its changes as they arrive.

Events and polls only trigger a read. The new rows are read from the last position on, so broken
connections and restarts of the node neither lose nor repeat rows.

The location of a dataset that a program names, and the token for it.

Rows of a dataset as Arrow: a node reads them for us, or we read the chain ourselves.

Both run the same projection (`odf_storage/datasets/read`). We trust a node's response, but not a
chain: every block and slice is hashed, and no row is returned whose slice does not fit its hash.

Changes of a dataset since a position.

Offsets of a changelog begin with 0 and have no gaps, so skipping as many rows as the offset says
gives the rows after it. The block beside the offset shows whether the history is still the same.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar

from odf_protocol.chain.state import EMPTY
from odf_protocol.errors import BadInput, Conflict, NodeError, NotFound, RemoteFailed
from odf_protocol.multihash import Multihash
from odf_storage.datasets.read.formats import Format

from ..client.nodes.home import token_for
from ..client.nodes.http import TransferFailed, Unreachable, open_http, unreachable
from ..client.nodes.later import httpx
from ..client.nodes.limits import LIMITS, too_much
from ..client.nodes.node_api import NodeApi, NothingThere, NotOffered
from ..client.nodes.remotes import Location, NamedRepository, Repositories
from ..client.nodes.repositories import HttpRepository, Repository
from ..client.nodes.targets import TokenAt, read_address
from ..client.transfer.receive import ChainReader
from ..client.transfer.sync import opened
from ..client.uses import events
from ..client.uses.event_texts import chain_data
from ..client.uses.events import Ending
from ..service.read.read import CHANGELOG, ReadRequest

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """A location, and the token to send there."""

    location: Location
    token: str | None

    def __repr__(self) -> str:
        return f"Place({self.location})"

    @property
    def is_served(self) -> bool:
        """Whether the location is read by HTTP, so that it may be a node that reads for us."""
        return bool(self.location.base)


def place_of(name: str | os.PathLike[str], token: str | None = None) -> StreamPlace:
    """Resolve a URL, a folder, or REPOSITORY/[ACCOUNT/]NAME.

    The token is the given one, else the repository's, else `ODF_NODE_TOKEN` if the location is on
    the node at `ODF_NODE_URL` (if that is not set, on this machine), else that of `odf-node login`.

    Raises:
        UnsupportedUrl, NotADataset, TransferFailed.
    """
    text = str(name) if isinstance(name, str) else str(Path(name))
    repositories = Repositories()
    address = read_address(text, repositories, tokens=tokens_of(repositories, token))
    return StreamPlace(address.location, address.token)


def tokens_of(repositories: Repositories, token: str | None) -> TokenAt:
    """Return the function that finds the token for an address, as `place_of` says."""

    def token_at(address: str, by: NamedRepository | None) -> str | None:
        own = token or repositories.token_of_repository(address, by=by)
        return own or token_for(address) or repositories.token_of_login(address)

    return token_at


BLOCK = "odf-block"
"""Header with the block as of which rows were read."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in offset order, read on demand, and the block as of which they are read."""

    block: str
    reader: pa.RecordBatchReader


class RowSource(Protocol):
    """Reads the rows of a dataset."""

    @contextmanager
    def rows(self, request: ReadRequest) -> Iterator[Rows]:
        """Yield the requested rows. Raises the same errors as `odf-node read`."""

    def facts(self) -> dict[str, Any]:
        """Return what the chain says of the dataset, and what else a node says of it."""


class FromNode:
    """Lets a node read: one request, and the response has only the requested columns and rows.

    A node of another make does not read for others; then the chain is read here."""

    def __init__(self, place: StreamPlace) -> None:
        self._place = place

    @contextmanager
    def rows(self, request: ReadRequest) -> Iterator[Rows]:
        import pyarrow as pa

        place = self._place
        with ExitStack() as stack:
            http = stack.enter_context(open_http())
            api = NodeApi(place.location.base, place.token, http=http)
            try:
                headers, body = stack.enter_context(api.opened("read", **_query(request)))
            except (NotOffered, NothingThere) as missing:
                self._require_files(missing, http)
                yield stack.enter_context(FromChain(place).rows(request))
                return
            block = headers.get(BLOCK)
            if block is None:
                raise RemoteFailed(
                    "NoRows",
                    f"{place.location} is no node that reads datasets; "
                    "open it with verify=True to read its files",
                    url=str(place.location),
                )
            reader = pa.ipc.open_stream(pa.PythonFile(Messages(body), "r"))
            yield Rows(block, _at_most(reader, request.limit))

    def facts(self) -> dict[str, Any]:
        place = self._place
        with open_http() as http:
            try:
                return NodeApi(place.location.base, place.token, http=http).dataset()
            except (NotOffered, NothingThere) as missing:
                self._require_files(missing, http)
        return FromChain(place).facts()

    def _require_files(self, missing: NodeError, http: httpx.Client) -> None:
        """Check that the server has the dataset by the transfer protocol, as any other node and a
        server of files do. Raises `missing`."""
        there = HttpRepository(self._place.location.base, self._place.token, http=http)
        if missing.facts.get("reported") is not None or there.find_head() is None:
            raise missing


class Messages(io.RawIOBase):
    """A stream of Arrow messages, none of them longer than a client takes: their lengths are
    announced by the node, and memory for them is taken before they come."""

    def __init__(self, body: BinaryIO, most: int = LIMITS.rows_message_bytes) -> None:
        self._body, self._most = body, most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self._most:
            raise too_much("a message of rows", self._most)
        return self._body.read(size)


def _at_most(reader: pa.RecordBatchReader, limit: int | None) -> pa.RecordBatchReader:
    """Return no more rows than were asked for, whatever the node sends."""
    import pyarrow as pa

    if limit is None:
        return reader

    def batches() -> Iterator[pa.RecordBatch]:
        left = limit
        while left > 0 and (batch := next(iter(reader), None)) is not None:
            yield batch.slice(0, left)
            left -= batch.num_rows

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


class FromChain:
    """Reads the rows itself: fetches and hashes the whole chain and every needed slice. `check` is
    called with the head, unless the rows are as of an earlier block, before rows are yielded."""

    def __init__(
        self, place: StreamPlace, check: Callable[[Repository, Multihash], None] | None = None
    ) -> None:
        self._place, self._check = place, check

    @contextmanager
    def rows(self, request: ReadRequest) -> Iterator[Rows]:
        import pyarrow as pa

        from odf_storage.datasets.read.read import reading
        from odf_storage.datasets.read.view import view_of

        asked = request.asked()  # reports a bad request before anything is fetched
        with opened(self._place.location, self._place.token, whole=True) as repository:
            view = view_of(repository, request.block())
            if self._check is not None and request.as_at is None:
                self._check(repository, view.head)
            with reading(view, asked) as (schema, batches):
                yield Rows(str(view.head), pa.RecordBatchReader.from_batches(schema, batches))

    def facts(self) -> dict[str, Any]:
        with opened(self._place.location, self._place.token, whole=True) as repository:
            state = EMPTY
            for block in reversed([*ChainReader(repository).back(repository.head())]):
                state = state.after(block)
        return chain_data(state)


def _query(request: ReadRequest) -> dict[str, Any]:
    given = replace(request, form=Format.ARROW.value)
    return {
        "asAt": given.as_at,
        "asOf": given.as_of,
        "projection": given.projection,
        "columns": given.columns,
        "filter": given.filters or None,
        "skip": given.skip or None,
        "limit": given.limit,
        "format": given.form,
    }


_TEXT = re.compile(r"(\d{1,16})(?:@(f1620[0-9a-f]{64}))?")


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset, and the block as of which the earlier rows were read."""

    offset: int = 0
    block: str | None = None

    @classmethod
    def of(cls, since: Position | str | int) -> Position:
        """Parse a position. Raises `MalformedPosition`."""
        if isinstance(since, Position):
            return since
        found = _TEXT.fullmatch(str(since))
        if found is None:
            raise BadInput(
                "MalformedPosition", f"{str(since)[:100]!r} is no offset and no OFFSET@BLOCK"
            )
        return cls(int(found[1]), found[2])

    def __str__(self) -> str:
        return str(self.offset) if self.block is None else f"{self.offset}@{self.block}"


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows as they were written (column `op` has their operation), and the position from which to
    continue."""

    rows: pa.Table
    position: Position


def changes_since(
    source: RowSource, at: str | None, since: Position, *, limit: int | None = None
) -> Changes:
    """Return the first `limit` rows from a position on. Raises `HistoryReplaced`."""
    require_same_history(source, since)
    request = ReadRequest(as_at=at, projection=CHANGELOG, skip=since.offset, limit=limit)
    with source.rows(request) as rows:
        table = rows.reader.read_all()
        return Changes(table, Position(since.offset + table.num_rows, rows.block))


def require_same_history(source: RowSource, since: Position) -> None:
    """Check that the block of the position is still in the chain. Raises `HistoryReplaced`."""
    if since.block is None:
        return
    try:
        with source.rows(ReadRequest(as_at=since.block, projection=CHANGELOG, limit=0)):
            return
    except NotFound as gone:
        if gone.facts.get("block") != since.block:
            raise
        raise Conflict(
            "HistoryReplaced",
            f"block {since.block}, up to which changes were read, is not in the dataset any more: "
            "its history was replaced; read it from the beginning",
            block=since.block,
        ) from gone


POLL_S = 2.0
"""Seconds between two checks of the head of a folder or a bucket."""
PAUSE_S = 1.0
"""Seconds until rows are requested again from a node that was unavailable."""

T = TypeVar("T")


class Following(Iterator[Changes]):
    """Iterator of changes, each with the position after it; created by `Dataset.follow`.

    It ends after the time-out without changes, or when any thread calls `stop`.
    """

    def __init__(
        self,
        place: StreamPlace,
        source: RowSource,
        since: Position,
        *,
        timeout_s: float | None,
        poll_s: float | None,
        limit: int,
    ) -> None:
        if limit < 1 or (poll_s is not None and poll_s <= 0) or (timeout_s or 0) < 0:
            raise BadInput(
                "ImpossiblePace",
                "limit is 1 row or more, poll more than 0 seconds, timeout 0 seconds or more",
                limit=limit,
            )
        self._place, self._source, self._limit = place, source, limit
        self._poll_s = poll_s if place.is_served else poll_s or POLL_S
        self._ending = Ending(timeout_s)
        self.position = since
        """Position after the rows that were returned."""
        self._changes = self._found()

    def __next__(self) -> Changes:
        self._ending.renew()
        return next(self._changes)

    def __enter__(self) -> Following:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._changes.close()

    def stop(self) -> None:
        """End the iteration, also while another thread waits in it."""
        self._ending.stop()

    def _found(self) -> Generator[Changes]:
        moves = self._moves() if self._poll_s is None else self._polls(self._poll_s)
        for _ in chain([None], moves):
            is_full = True
            while is_full and not self._ending.is_stopped():
                changes = self._patiently(self._read)
                if changes is None:
                    return
                self.position = changes.position
                is_full = changes.rows.num_rows == self._limit
                if changes.rows.num_rows:
                    yield changes

    def _moves(self) -> Iterator[None]:
        """Yield whenever the node reports rows after the position, or another history."""
        place = self._place
        url = f"{place.location.base}events"
        try:
            with open_http() as http:
                for event in events.follow(http, url, place.token, ending=self._ending):
                    if self._is_new(event):
                        yield
        except httpx.TransportError as error:
            raise unreachable(url, error) from error

    def _is_new(self, event: events.Event) -> bool:
        if event.kind == "block":
            offsets = event.data.get("offsets")
            return isinstance(offsets, dict) and offsets.get("end", -1) >= self.position.offset
        return event.data.get("block") != self.position.block

    def _polls(self, poll_s: float) -> Iterator[None]:
        """Yield whenever the head differs from that of the last check."""
        known = self.position.block
        while not self._ending.is_over():
            head = self._patiently(self._head)
            if head is not None and str(head) != known:
                known = str(head)
                yield
            self._ending.wait(poll_s)

    def _head(self) -> Multihash:
        with opened(self._place.location, self._place.token) as repository:
            return repository.head()

    def _read(self) -> Changes:
        return changes_since(self._source, None, self.position, limit=self._limit)

    def _patiently(self, action: Callable[[], T]) -> T | None:
        """Repeat the action while the node is unavailable; return None if the iteration is stopped
        meanwhile."""
        while True:
            try:
                return action()
            except TransferFailed as failed:
                if not _passes(failed):
                    raise
                self._ending.wait(PAUSE_S)
                if self._ending.is_stopped():
                    return None
                if self._ending.is_over():
                    raise


def _passes(failed: TransferFailed) -> bool:
    """Whether the node may soon be available again."""
    return isinstance(failed, Unreachable) or failed.facts.get("status") in events.PASSING
