"""The single file of an upload form, read in pieces (multipart/form-data, RFC 7578).

Temporary storage of bodies until their hash is known.

The key of an object contains the hash of its content, so a body cannot be stored before its last
byte has arrived.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from odf_protocol.errors import BadInput
from odf_protocol.multihash import Multihash
from odf_storage.stores.objects.files import HashBeside
from odf_storage.stores.objects.layout import storing

FILE_PART = "file"
MAX_HEADERS = 8
MAX_HEADER_BYTES = 4096
OVERHEAD_BYTES = 64 * 1024
"""Limit of bytes that boundaries and headers may add to the size of the file."""


def not_the_upload_form() -> BadInput:
    """A body is not a form with exactly one file."""
    return BadInput("NotTheUploadForm", "Expected 'file' to be the only part of upload form")


class UploadForm:
    """Reads a form with one part. Its name must be `file`, unless `any_name` is set.

    A form with more parts, or one that cannot be parsed, is refused.
    """

    def __init__(self, content_type: str, *, any_name: bool = False) -> None:
        """Raises `NotTheUploadForm` if the content type is not that of a form."""
        self._any_name = any_name
        self.file_name, self.content_type = "", ""
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise not_the_upload_form()
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._field,
                    "on_header_value": self._value,
                    "on_header_end": self._header,
                    "on_headers_finished": self._headers,
                    "on_part_data": self._data,
                    "on_end": self._end,
                },
                max_header_count=MAX_HEADERS,
                max_header_size=MAX_HEADER_BYTES,
            )
        except FormParserError:
            raise not_the_upload_form() from None
        self._name, self._content = bytearray(), bytearray()
        self._disposition = b""
        self._pieces: list[bytes] = []
        self._parts, self._ended = 0, False

    def file(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the bytes of the file. Raises `NotTheUploadForm` while the chunks are read."""
        for chunk in chunks:
            try:
                self._parser.write(chunk)
            except FormParserError:
                raise not_the_upload_form() from None
            pieces, self._pieces = self._pieces, []
            yield from pieces
        if not self._ended or self._parts != 1:
            raise not_the_upload_form()

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > 1:
            raise not_the_upload_form()

    def _field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _value(self, data: bytes, start: int, end: int) -> None:
        self._content += data[start:end]

    def _header(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = bytes(self._content)
        if self._name.lower() == b"content-type":
            self.content_type = self._content.decode("latin-1")
        self._name, self._content = bytearray(), bytearray()

    def _headers(self) -> None:
        kind, options = parse_options_header(self._disposition)
        is_named = self._any_name or options.get(b"name") == FILE_PART.encode()
        if kind != b"form-data" or not is_named:
            raise not_the_upload_form()
        self.file_name = options.get(b"filename", b"").decode("utf-8", "replace")

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._pieces.append(data[start:end])

    def _end(self) -> None:
        self._ended = True


MEMORY_BYTES = 4 * 1024 * 1024
READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Spooled:
    """A body that arrived completely. `size` is in bytes."""

    hash: Multihash
    size: int
    file: IO[bytes]

    def chunks(self) -> Iterator[bytes]:
        """Return the body from its beginning, in pieces."""
        self.file.seek(0)
        return iter(lambda: self.file.read(READ_BYTES), b"")


@contextmanager
def spooled(data: Path, chunks: Iterable[bytes]) -> Iterator[Spooled]:
    """Keep a body for the duration of the `with` block: a small one in memory, a larger one in a
    temporary file in the node's data folder."""
    folder = data / "uploads"
    with storing("the data folder"):
        folder.mkdir(parents=True, exist_ok=True)
    size = 0
    with (
        closing(HashBeside()) as hashed,
        tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES, dir=str(folder)) as file,
    ):
        for chunk in chunks:
            hashed.update(chunk)
            with storing("the data folder"):
                file.write(chunk)
            size += len(chunk)
        yield Spooled(hashed.result(), size, file)
