"""What a reader reads of the bytes that a poll fetched: unpacked, as text in UTF-8, one sheet.

Its hash tells a repeat where the bytes do not: an archive that is packed anew for each answer, a
workbook with the time of its making, a line above the header that the source leaves out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from odf_protocol.errors import NodeError
from odf_protocol.metadata.events import SetPollingSource
from odf_protocol.metadata.sources import ReadStepEsriShapefile
from odf_protocol.multihash import Multihash
from odf_protocol.sources.source_marks import BODY_KEY, CONTENT_KEY, FILES_KEY

from ...fetch.values import Fetched
from ...prepare.run import prepare
from ...readers.formats.plain import plain_file
from ...readers.formats.plain_text import Plain
from ...readers.formats.shapefile import members_of
from ...runtime.command import CHUNK_BYTES, PrepareLimits
from ...runtime.progress import opened
from ...slices.schema import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """How the files of a source are unpacked. Equal ones give equal contents."""

    source: SetPollingSource
    preparation: PrepareLimits
    limits: Limits
    scratch: Path = field(compare=False)

    def plain(self, path: Path, folder: Path, told: list[str]) -> Plain:
        """Return what readers read of a file, and the step to read it by; warnings are added to
        `told`. `folder` receives what is written. Raises as `prepare` and `plain_file`."""
        ready = prepare(self.source.prepare or (), path, folder, self.preparation, told)
        return plain_file(ready, self.source.read, folder / "read", self.limits)

    def hash_of(self, plain: Plain) -> str:
        """Return the hash of what is read. Of a shapefile these are some members, without the day
        on which its table was written. Raises `NodeError`."""
        if isinstance(plain.step, ReadStepEsriShapefile):
            return str(Multihash.of_chunks(members_of(plain.content, plain.step, self.limits)))
        with opened(plain.content) as stream:
            return str(Multihash.of_chunks(iter(partial(stream.read, CHUNK_BYTES), b"")))

    def __call__(self, path: Path) -> str:
        """Return the hash of what is read of a file, empty if it cannot be read."""
        with tempfile.TemporaryDirectory(prefix="content-", dir=self.scratch) as folder:
            try:
                return self.hash_of(self.plain(path, Path(folder), []))
            except (NodeError, OSError):
                return ""


def marks_with_content(found: Fetched, plain: Plain, contents: Contents) -> Mapping[str, Any]:
    """Return the marks of fetched bytes with the hash of what is read of them, if that is something
    else. Raises `NodeError`."""
    is_archive = isinstance(plain.step, ReadStepEsriShapefile)
    if found.table is not None or (plain.content == found.path and not is_archive):
        return found.marks
    if BODY_KEY in found.marks:
        _, mark, time = str(found.marks[BODY_KEY]).partition("@")
        return {**found.marks, CONTENT_KEY: f"{contents.hash_of(plain)}{mark}{time}"}
    if FILES_KEY in found.marks:
        return {
            **found.marks,
            FILES_KEY: dict.fromkeys(found.marks[FILES_KEY], contents.hash_of(plain)),
        }
    return found.marks
