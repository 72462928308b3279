"""Posted bodies: short ones that are in memory, others that arrive while they are read."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from odf_protocol.multihash import Multihash

from ..http.bodies import LIMIT, BodyTooLong
from ..http.media_types import media_type_of
from ..http.multipart import UploadForm
from ..http.spool import Spooled, spooled


class Content:
    """A body that can be read once. Its media type may become known only while it is read."""

    def __init__(self, chunks: Iterable[bytes], media_type: str | None) -> None:
        self._chunks, self.media_type = chunks, media_type

    def arrived(self, data: Path) -> AbstractContextManager[Spooled]:
        """Receive the whole body; a long one is kept in the data folder meanwhile."""
        return spooled(data, self._chunks)


class Whole(Content):
    """A short body that is already in memory."""

    def __init__(self, body: bytes, media_type: str | None) -> None:
        super().__init__((body,), media_type)
        self._body = body

    def arrived(self, data: Path) -> AbstractContextManager[Spooled]:  # noqa: ARG002
        body = self._body
        return nullcontext(Spooled(Multihash.of(body), len(body), io.BytesIO(body)))


class FileOfForm(Content):
    """The file of a form. Its part headers, or its file name, give the media type."""

    def __init__(self, form: UploadForm, chunks: Iterable[bytes], limit: int) -> None:
        super().__init__(self._read(form, chunks, limit), None)

    def _read(self, form: UploadForm, chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
        size = 0
        for piece in form.file(chunks):
            size += len(piece)
            if size > limit:
                raise BodyTooLong(limit, LIMIT)
            yield piece
        self.media_type = media_type_of(form.content_type, form.file_name)
