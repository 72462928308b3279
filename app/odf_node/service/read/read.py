"""Read a dataset as a table: parse the request, and encode rows as bytes.

Other systems swap the names of the two cuts. Here AS AT means when something was known (a system
time, or a block), and AS OF means when it happened (an event time).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import Instant, MalformedInstant
from odf_protocol.multihash import MalformedHash, MalformedMultibase, Multihash
from odf_storage.datasets.pruning.filters import Filter, parsed_filter
from odf_storage.datasets.pruning.learned import LearnedBounds
from odf_storage.datasets.read.formats import Format, encoded

from ..readers.messages import Materials
from ..readers.tasks import ReadTask, SliceRef, TableRef, schema_data
from .outlines import Outlines

if TYPE_CHECKING:
    from odf_storage.datasets.node.stores import Stores
    from odf_storage.datasets.read.read import RowsRequest
    from odf_storage.datasets.read.scan import KnownBounds
    from odf_storage.datasets.read.view import View
    from odf_storage.stores.ports.values import DatasetEntry


CHANGELOG, FACTS = "changelog", "facts"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A request as text; without any parameters it means all current rows."""

    as_at: str | None = None
    as_of: str | None = None
    projection: str | None = None
    """Default: `facts`, the current rows."""
    columns: str | None = None
    """Names of columns, separated by commas."""
    skip: int = 0
    limit: int | None = None
    form: str = Format.NDJSON.value
    filters: Sequence[str] = ()
    """Each as `column:operator:value`; a row must satisfy all of them."""

    def block(self) -> Multihash | None:
        """Return the block if `as_at` names one. Raises `InvalidTime`."""
        return None if self.as_at is None else _known(self.as_at)[1]

    def asked(self) -> RowsRequest:
        """Parse the request. Raises `InvalidTime`, `InvalidProjection`, `MalformedFilter`."""
        from odf_storage.datasets.read.read import RowsRequest
        from odf_storage.datasets.read.rows import Projection, RowCut

        try:
            projection = Projection(self._projection)
        except ValueError:
            known = ", ".join(Projection)
            raise BadInput(
                "InvalidProjection",
                f"a projection is one of {known}, not {str(self.projection)[:50]!r}",
            ) from None
        cut = RowCut(
            system_time=None if self.as_at is None else _known(self.as_at)[0],
            event_time=None if self.as_of is None else _time(self.as_of, "as of"),
        )
        names = None if self.columns is None else tuple(self.columns.split(","))
        return RowsRequest(
            projection=projection,
            cut=cut,
            columns=names,
            filters=self.parsed_filters(),
            skip=self.skip,
            limit=self.limit,
        )

    @property
    def is_of_facts(self) -> bool:
        return self._projection == FACTS

    @property
    def _projection(self) -> str:
        return (self.projection or FACTS).strip().lower()

    def parsed_filters(self) -> tuple[Filter, ...]:
        """Return the parsed filters. Raises `MalformedFilter`."""
        return tuple(parsed_filter(each) for each in self.filters)

    def format(self) -> Format:
        """Return the format of the rows. Raises `InvalidProjection`."""
        try:
            return Format(self.form.strip().lower())
        except ValueError:
            known = ", ".join(Format)
            raise BadInput(
                "InvalidProjection", f"a format is one of {known}, not {self.form[:50]!r}"
            ) from None


def _known(text: str) -> tuple[Instant | None, Multihash | None]:
    """Parse the text as a block hash, else as a system time."""
    try:
        return None, Multihash.parse(text.strip())
    except (MalformedHash, MalformedMultibase):
        return _time(text, "as at"), None


def _time(text: str, name: str) -> Instant:
    try:
        return Instant.parse(text.strip())
    except MalformedInstant as broken:
        raise BadInput("InvalidTime", f"{name}: {broken.message}") from None


class Reading:
    """Rows as bytes, whose first piece is already encoded. Close it, or read it to its end."""

    def __init__(self, view: View, request: ReadRequest, known: KnownBounds | None = None) -> None:
        """Begin to read. Facts about slices in `known` save opening some of them."""
        from odf_storage.datasets.read.read import narrowed_for, rows_of
        from odf_storage.datasets.read.scan import NOTHING_KNOWN

        self.head, self.form, asked = view.head, request.format(), request.asked()
        self.narrow = narrowed_for(view, asked, known or NOTHING_KNOWN)
        self._open = ExitStack()
        try:
            schema, batches = self._open.enter_context(rows_of(self.narrow, asked))
            self._chunks = encoded(schema, batches, self.form)
            self._first = next(self._chunks, b"")
        except BaseException:
            self._open.close()
            raise

    def __iter__(self) -> Iterator[bytes]:
        with self._open:
            yield self._first
            yield from self._chunks

    def close(self) -> None:
        self._open.close()


@dataclass(frozen=True)
class Tables:
    """Describes datasets of this node as tables for readers, with known bounds of their slices."""

    stores: Stores
    outlines: Outlines
    bounds: LearnedBounds

    def of(
        self, entry: DatasetEntry, block: Multihash | None, filters: Sequence[Filter]
    ) -> tuple[TableRef, Materials]:
        """Return the table as of a block, with known bounds of the filtered columns, and the source
        of its objects. Raises `BlockNotFound`."""
        dataset = self.stores.dataset(DatasetRef(id=entry.id))
        outline, index = self.outlines.of(dataset, block, indexed=bool(filters))
        vocab = {
            name: getattr(outline.vocab, name)
            for name in outline.vocab.__struct_fields__
            if name != "event"
        }
        slices = [SliceRef.of(data, recorded) for data, recorded in outline.slices]
        columns = [each.column for each in filters]
        table = TableRef(
            head=str(outline.head),
            vocab=vocab,
            schema=schema_data(outline.schema),
            slices=slices,
            key=outline.key,
            bounds=self.bounds.of(
                str(dataset.id), columns, [each.physical_hash for each in slices]
            ),
            index=index,
        )
        return table, Materials(dataset, self.stores.projections)


def read_task(
    tables: Tables, entry: DatasetEntry, request: ReadRequest, *, max_bytes: int
) -> tuple[ReadTask, Materials]:
    """Return the task of a reader for this request, and the source of the dataset's objects.

    Raises:
        InvalidTime, MalformedFilter. BlockNotFound: the dataset does not have the AS AT block.
    """
    table, materials = tables.of(entry, request.block(), request.parsed_filters())
    return ReadTask(table=table, request=asdict(request), max_bytes=max_bytes), materials
