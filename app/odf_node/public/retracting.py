"""Taking rows of a dataset back: find the current rows, and post them as retractions.

The rows go the way of all posts. The node compares each with the row that stands, so a row that
changed meanwhile is refused, and copies its event time.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odf_protocol.errors import BadInput, LimitExceeded, NotFound

from ..client.http import open_http
from ..client.limits import MOST_TAKEN_BACK
from ..client.node_api import NodeApi
from ..client.urls import UnsupportedUrl
from ..service.read.read import FACTS, ReadRequest
from .place import Place
from .publish import MEDIA_TYPE
from .rows import FromNode

if TYPE_CHECKING:
    import pyarrow as pa

_NAMES = {
    "offsetColumn": "offset",
    "operationTypeColumn": "op",
    "systemTimeColumn": "system_time",
}
"""The node's own columns: the key of each in a vocabulary, and its usual name."""
_RETRACT = 1


class NoRowsNamed(BadInput):
    """Nothing says which rows to take back."""


class NoSuchRows(NotFound):
    """No current row fits."""


class TooManyRows(LimitExceeded):
    """More rows fit than may be taken back at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Current rows of a dataset, with the names of the node's own columns."""

    place: Place
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
    place: Place,
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
        raise NoRowsNamed("say which rows to take back: by a key, offsets or a filter")
    if not place.is_served:
        raise UnsupportedUrl(
            f"a node takes rows back, http(s)://…; {place.location} is none",
            url=str(place.location),
        )
    names = _own_columns(place)
    wanted = [*filters, *_conditions(key or {}, offsets, names["offset"])]
    request = ReadRequest(projection=FACTS, filters=tuple(wanted), limit=most + 1)
    with FromNode(place).rows(request) as found:
        rows = found.reader.read_all()
    if not rows.num_rows:
        raise NoSuchRows("no current row fits; `odf-node read` shows the current rows")
    if rows.num_rows > most:
        raise TooManyRows(
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


def _own_columns(place: Place) -> dict[str, str]:
    """Return the names of the node's own columns, by their usual names."""
    with open_http() as http:
        api = NodeApi(place.location.base, place.token, http=http)
        told = api.ask("GET", "metadata", include="vocab").get("output", {}).get("vocab", {})
    return {usual: str(told.get(key) or usual) for key, usual in _NAMES.items()}
