"""Publish a frame or a file: as a new dataset of a node, or as more rows of an existing one.

Taking rows of a dataset back: find the current rows, and post them as retractions.

The rows go the way of all posts. The node compares each with the row that stands, so a row that
changed meanwhile is refused, and copies its event time.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from odf_protocol.errors import BadInput, LimitExceeded, NotFound
from odf_protocol.multihash import Multihash

from ..client.nodes.http import open_http
from ..client.nodes.limits import MOST_TAKEN_BACK
from ..client.nodes.node_api import REPLAYED, NodeApi, NothingThere, RequestConflict
from ..client.transfer.folder import chunks_of
from ..client.uses.new_dataset import NewDataset, kept_if_filled, new_dataset, node_and_alias
from ..service.read.read import FACTS, ReadRequest
from .following import FromNode, StreamPlace, place_of
from .tables import of_index, parquet, table_of

if TYPE_CHECKING:
    import httpx
    import pyarrow as pa

    from ..proposal.options import Choices
    from ..proposal.sample import Sample


MergeName = Literal["append", "ledger", "snapshot", "upsert"]
MEDIA_TYPE = "application/vnd.apache.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The node's report about posted rows."""

    outcome: str
    block: str | None
    """Head of the dataset afterwards."""
    rows_read: int
    rows_added: int
    rows_known: int
    """Rows that the dataset had already."""
    rows_corrected: int
    rows_retracted: int
    warnings: tuple[str, ...]
    replayed: bool
    """Whether the node had this request before: the rows entered then, and not a second time."""
    notes: tuple[str, ...]
    """What was noticed when the dataset was created for these rows."""
    answer: Mapping[str, Any]
    """The complete response of the node."""

    @classmethod
    def of(
        cls, answer: Mapping[str, Any], notes: tuple[str, ...] = (), told: tuple[str, ...] = ()
    ) -> Receipt:
        """Return what a node answers; `told` are warnings that only the client knows."""
        return cls(
            outcome=str(answer.get("outcome", "")),
            block=answer.get("head"),
            rows_read=int(answer.get("rowsRead", 0)),
            rows_added=int(answer.get("rowsAdded", 0)),
            rows_known=int(answer.get("rowsKnown", 0)),
            rows_corrected=int(answer.get("rowsCorrected", 0)),
            rows_retracted=int(answer.get("rowsRetracted", 0)),
            warnings=(*told, *answer.get("warnings", ())),
            replayed=bool(answer.get(REPLAYED, False)),
            notes=notes,
            answer=answer,
        )


def publish(
    data: Any,
    url: str,
    *,
    key: Sequence[str] | None = None,
    merge: MergeName | None = None,
    event_time: str | None = None,
    description: str | None = None,
    visibility: Literal["private", "public"] = "private",
    token: str | None = None,
    expected_head: str | None = None,
    idempotency_key: str | None = None,
    add_columns: bool = False,
    **options: Any,
) -> Receipt:
    """Post the rows of a frame or a file to the dataset at `url`, which is created if it does not
    exist; it stays only if the rows enter. While the connection breaks or a proxy gives up, the
    rows are sent again.

    Args:
        data: a pandas or Polars frame, a DuckDB relation, an Arrow table, batch or stream, a list
            of dicts, or a dict of columns. A pandas index is included if it has a name. Or the path
            of a file, of a format that `odf-node publish` takes.
        url: `http(s)://node/[account/]name`.
        key: columns that identify a row; used if the dataset is created.
        merge: `append`: all rows are new; `ledger`: rows with a new key are added; `upsert`: they
            are added or correct the row of their key; `snapshot`: the frame is the whole state,
            rows that it lacks are retracted. By default `upsert` with a key, else `append`.
        event_time: the column with the time at which each row happened. Like `merge`, used if the
            dataset is created.
        expected_head: block that the dataset must have as its head, else `RequestConflict`.
        idempotency_key: name of this call. A second call with the same name changes nothing, and
            its receipt says `replayed`. By default the hash of the rows, and the head at the
            beginning: the same rows after another change are another change.
        add_columns: columns that the dataset lacks extend its schema, and that of its source; not
            if the source declares its columns by DDL or a query.
        options: how a file is read, as `odf-node publish --help` lists: `separator`, `header`, …
            Of a file, `key=()` and `event_time=""` mean none, None that the file decides.

    Raises:
        NotATable, UnusableChoice, UnusableOption, TransferFailed. QuestionOpen: a file leaves it
        open. Refused: the token does not allow it. RowsNotTaken: the node rejects the rows.
    """
    place = _node_place(url, token)
    given = {"merge": merge, "description": description, "key": key, "event_time": event_time}
    with open_http() as http, _rows(data) as rows:
        choices = _choices({**given, **options}, place, rows)
        head, made, notes = _dataset(place, rows, choices, visibility, http)
        api = NodeApi(place.location.base, place.token, http=http)
        adds = add_columns and made is None  # a new dataset has the columns of its rows
        with nullcontext() if made is None else kept_if_filled(made, api):
            answer = api.ingest(
                rows.chunks,
                media_type=rows.media_type,
                size=rows.size,
                expected_head=expected_head,
                add_columns=adds,
                on_bad_rows=None if choices.on_bad_rows == "fail" else choices.on_bad_rows,
                key=idempotency_key or _request_key(rows, expected_head or head, adds=adds),
            )
    return Receipt.of(answer, notes, of_index(data))


def _request_key(rows: _Rows, head: str, *, adds: bool) -> str:
    """Return the name of a call. One that adds columns follows the refusal of one that does not, so
    it has another name."""
    digest = Multihash.of_chunks(rows.chunks())
    return f"rows-{digest}-{head}{'-add-columns' if adds else ''}"


def _node_place(url: str, token: str | None) -> StreamPlace:
    place = place_of(url, token)
    if not place.is_served:
        raise BadInput(
            "UnsupportedUrl", f"rows are posted to a node, http(s)://…, not to {url!r}", url=url
        )
    return place


def _choices(given: dict[str, Any], place: StreamPlace, rows: _Rows) -> Choices:
    """Return what the caller chose. Of a frame, no key and no event time mean none."""
    from ..proposal.options import chosen  # as all of proposals, slow to load

    if rows.is_frame:
        none = {"key": (), "event_time": ""}
        given |= {name: none[name] for name in none if given[name] is None}
    with _naming_arguments():
        return chosen(given, name=node_and_alias(place.location.base)[1])


@contextmanager
def _naming_arguments() -> Iterator[None]:
    """Let errors name the arguments of a function, and not the options of the command."""
    from ..proposal.options import in_python

    try:
        yield
    except BadInput as bad:
        bad.args = (in_python(bad.message), *bad.args[1:])
        raise


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows as a file that is sent; `sample` is what a proposal looks at."""

    file: BinaryIO
    media_type: str
    size: int
    sample: Sample
    is_frame: bool
    has_rows: bool = True

    def chunks(self) -> Iterator[bytes]:
        self.file.seek(0)
        return chunks_of(self.file)


@contextmanager
def _rows(data: Any) -> Iterator[_Rows]:
    """Yield a frame as Parquet, or the file at a path. Raises `NotATable`."""
    from ..proposal.sample import MEDIA_TYPES, Sample, SampleFormat, sample_of_file

    if isinstance(data, str | os.PathLike):
        path = Path(data)
        sample = sample_of_file(path)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            yield _Rows(file, MEDIA_TYPES[sample.format], size, sample, is_frame=False)
        return
    table = table_of(data)
    if not table.num_columns:
        raise BadInput("NotATable", f"the {type(data).__name__} has no columns")
    with parquet(table) as path:
        sample = Sample("frame.parquet", SampleFormat.PARQUET, b"", is_whole=True, file=path)
        with path.open("rb") as file:
            size, has_rows = path.stat().st_size, table.num_rows > 0
            yield _Rows(file, MEDIA_TYPE, size, sample, is_frame=True, has_rows=has_rows)


def _check_definition(
    dataset: NodeApi, there: Mapping[str, Any], choices: Choices, visibility: str
) -> None:
    """Raise `UnusableChoice` if the caller wants another definition than the dataset has: it would
    keep its own without a word."""
    if not (choices.merge or choices.key or choices.event_time or visibility == "public"):
        return
    from ..proposal.proposal import merge_kind

    wanted = {
        "merge": choices.merge and merge_kind(choices.merge),
        "key": choices.key and sorted(choices.key),
        "event_time": choices.event_time or None,
        "visibility": visibility if visibility == "public" else None,
    }
    found = _definition(dataset, there)
    for name, value in wanted.items():
        if value and name in found and found[name] != value:
            raise BadInput(
                "UnusableChoice",
                f"{name} {value!r} is not that of the dataset, which is {found[name]!r} and stays: "
                "leave the argument out, or change the dataset first",
                argument=name,
            )


def _definition(dataset: NodeApi, there: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a dataset tells of its definition, as far as a choice says it."""
    found: dict[str, Any] = {"visibility": str(there.get("visibility", "")).lower()}
    try:
        told = dataset.ask("GET", "metadata", include="sources,vocab").get("output", {})
    except BadInput:  # a node that does not tell its sources
        return found
    found["event_time"] = told.get("vocab", {}).get("eventTimeColumn")
    sources = told.get("sources", [])
    if len(sources) == 1:
        merge = sources[0]["merge"]
        found["merge"] = merge["kind"]
        found["key"] = sorted(merge.get("primaryKey", ()))
    return found


def _dataset(
    place: StreamPlace, rows: _Rows, choices: Choices, visibility: str, http: httpx.Client
) -> tuple[str, NewDataset | None, tuple[str, ...]]:
    """Return the head of the dataset, which is created for the rows unless it exists; the new
    dataset; and what was noticed about its rows."""
    base = place.location.base
    dataset = NodeApi(base, place.token, http=http)
    try:
        there = dataset.dataset()
        _check_definition(dataset, there, choices, visibility)
        return str(there["head"]), None, ()
    except NothingThere:
        node, _ = node_and_alias(base)
    if not rows.has_rows:
        raise BadInput(
            "NotATable",
            f"there is no dataset at {base}, and a frame without rows cannot define one",
        )
    from ..proposal.options import in_python
    from ..proposal.proposal import propose
    from ..proposal.wire import to_manifest

    with _naming_arguments():
        proposal = propose(rows.sample, choices)
        proposal.check_decided()
    manifest = to_manifest(proposal, rows.sample.name).encode()
    try:
        made = new_dataset(
            http, node, place.token, manifest, proposal.snapshot(), visibility=visibility
        )
    except RequestConflict:  # another client created it between the two calls
        return str(dataset.dataset()["head"]), None, ()
    notes = map(in_python, (*proposal.notes, *made.warnings))
    return made.head, made, tuple(dict.fromkeys(notes))


_NAMES = {
    "offsetColumn": "offset",
    "operationTypeColumn": "op",
    "systemTimeColumn": "system_time",
}
"""The node's own columns: the key of each in a vocabulary, and its usual name."""
_RETRACT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Current rows of a dataset, with the names of the node's own columns."""

    place: StreamPlace
    rows: pa.Table
    offset: str
    operation: str
    system_time: str

    @property
    def values(self) -> pa.Table:
        """The rows without the columns that the node writes."""
        return self.rows.drop_columns([self.operation, self.system_time])

    def take_back(self, *, dry_run: bool = False) -> dict[str, Any]:
        """Post the rows as retractions; return the receipt. Raises the errors of `NodeApi.ingest`,
        among them `RequestRefused`: a row does not stand any more."""
        body = self._body()
        with open_http() as http:
            api = NodeApi(self.place.location.base, self.place.token, http=http)
            return api.ingest(
                lambda: iter([body]),
                media_type=MEDIA_TYPE,
                size=len(body),
                changelog=True,
                dry_run=dry_run,
                key=str(uuid.uuid4()),
            )

    def _body(self) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = self.rows.drop_columns([self.offset, self.system_time])
        at = rows.column_names.index(self.operation)
        codes = pa.repeat(pa.scalar(_RETRACT, rows.schema.field(at).type), rows.num_rows)
        file = io.BytesIO()
        pq.write_table(rows.set_column(at, rows.schema.field(at), codes), file, compression="zstd")
        return file.getvalue()


def standing(
    place: StreamPlace,
    *,
    filters: Sequence[str] = (),
    key: Mapping[str, Any] | None = None,
    offsets: Sequence[int] = (),
    most: int = MOST_TAKEN_BACK,
) -> Standing:
    """Return the current rows that satisfy all filters, have these values and these offsets.

    Raises:
        NoRowsNamed, NoSuchRows, TooManyRows. UnsupportedUrl: the place is not on a node. The errors
        of `Dataset.batches`.
    """
    if not (filters or key or offsets):
        raise BadInput("NoRowsNamed", "say which rows to take back: by a key, offsets or a filter")
    if not place.is_served:
        raise BadInput(
            "UnsupportedUrl",
            f"a node takes rows back, http(s)://…; {place.location} is none",
            url=str(place.location),
        )
    names = _own_columns(place)
    wanted = [*filters, *_conditions(key or {}, offsets, names["offset"])]
    request = ReadRequest(projection=FACTS, filters=tuple(wanted), limit=most + 1)
    with FromNode(place).rows(request) as found:
        rows = found.reader.read_all()
    if not rows.num_rows:
        raise NotFound("NoSuchRows", "no current row fits; `odf-node read` shows the current rows")
    if rows.num_rows > most:
        raise LimitExceeded(
            "TooManyRows",
            f"more than {most} rows fit; name fewer, or allow more by the limit of rows "
            "(--max-rows, most=)",
            limit=most,
        )
    return Standing(
        place=place,
        rows=rows,
        offset=names["offset"],
        operation=names["op"],
        system_time=names["system_time"],
    )


def _conditions(key: Mapping[str, Any], offsets: Sequence[int], offset: str) -> Iterator[str]:
    """Yield the key and the offsets as filters."""
    for name, value in key.items():
        yield f"{name}:null" if value is None else f"{name}:eq:{value}"
    if offsets:
        yield f"{offset}:in:{','.join(map(str, offsets))}"


def _own_columns(place: StreamPlace) -> dict[str, str]:
    """Return the names of the node's own columns, by their usual names."""
    with open_http() as http:
        api = NodeApi(place.location.base, place.token, http=http)
        told = api.ask("GET", "metadata", include="vocab").get("output", {}).get("vocab", {})
    return {usual: str(told.get(key) or usual) for key, usual in _NAMES.items()}
