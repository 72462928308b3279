"""How the tasks are run, in a reader: rows of slices, encoded. A table, one line a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Protocol

import msgspec

from odf_node.protocol.arrow_schema import to_arrow
from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.instant import Instant
from odf_node.protocol.multihash import Multihash
from odf_node.protocol.typed import convert
from odf_node.storage.datasets.read.records import DataFormat, shaped
from odf_node.storage.datasets.read.view import View
from odf_node.storage.stores.ports.values import ObjectKind

from ..read.read import Reading, ReadRequest
from ..readers.tasks import MAX_ANSWER, MAX_TAIL, AnswerTooLong, ReadTask, TailTask, Task, schema_of
from .last_rows import last_rows

_JSON = msgspec.json.Encoder(enc_hook=str)


class Objects(Protocol):
    """Where a reader gets objects from."""

    def open_whole(self, kind: ObjectKind, name: Multihash, /) -> BinaryIO: ...
    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]], /) -> None: ...


def run(task: Task, objects: Objects) -> Iterator[bytes | int]:
    """The bytes of the answer; before them its length, where it is known."""
    answer: Iterator[bytes | int] = _WORK[type(task)](task, objects)
    return answer


def _tail(task: TailTask, objects: Objects) -> Iterator[bytes | int]:
    """All of it before the first byte, so that one that is too long can be refused."""
    pieces = [each.data() for each in task.slices]
    table = last_rows(
        pieces, objects.open_whole, skip=task.skip, limit=task.limit, max_bytes=task.max_bytes
    )
    text = _JSON.encode(shaped(table, DataFormat(task.shape)))
    if len(text) > task.max_bytes:
        raise AnswerTooLong(task.max_bytes, MAX_TAIL)
    yield len(text)
    yield text


class _Source:
    """The dataset as the projections see it: objects only, the chain was read."""

    def __init__(self, head: Multihash, objects: Objects) -> None:
        self._head = head
        self.open_whole, self.require = objects.open_whole, objects.require

    def head(self) -> Multihash:
        return self._head

    def block_bytes(self, block: Multihash) -> bytes:
        raise NotImplementedError(str(block))

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        return self.open_whole(kind, object_hash)


def _read(task: ReadTask, objects: Objects) -> Iterator[bytes | int]:
    """As the rows come; what goes beyond the budget breaks off."""
    head, schema = Multihash.parse(task.head), schema_of(task.schema)
    view = View(
        source=_Source(head, objects),
        head=head,
        vocab=convert(task.vocab, Vocab),
        schema=None if schema is None else to_arrow(schema),
        slices=tuple((each.data(), Instant(each.system_time)) for each in task.slices),
        key=task.key,
    )
    sent = 0
    for chunk in Reading(view, ReadRequest(**task.request)):
        sent += len(chunk)
        if sent > task.max_bytes:
            raise AnswerTooLong(task.max_bytes, MAX_ANSWER)
        yield chunk


_WORK: dict[type[Any], Any] = {TailTask: _tail, ReadTask: _read}
