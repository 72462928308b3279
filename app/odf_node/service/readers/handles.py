"""Turn streams into open files whose descriptors can be passed to another process."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from typing import BinaryIO


def with_descriptor(stream: BinaryIO) -> BinaryIO:
    """Return the stream as a file that another process can read; copy it to one if necessary."""
    with suppress(OSError):
        stream.fileno()
        stream.seek(0)
        return stream
    with stream:
        copy = tempfile.TemporaryFile()  # noqa: SIM115
        shutil.copyfileobj(stream, copy)
        copy.flush()
        return copy
