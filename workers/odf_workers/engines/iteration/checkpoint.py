"""Checkpoints: the watermarks, and state if any, that a transform keeps between iterations.

A checkpoint is one plain file: a line of canonical JSON, then the state unchanged. Equal content
gives equal bytes. An input without a new watermark keeps its last one, so the checkpoint stores
it; the coordinator may also repeat it in the request.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from odf_protocol.errors import BadInput, Damaged
from odf_protocol.instant import Instant
from odf_protocol.metadata.engine import TransformRequestInput

FORMAT = "odf-node-checkpoint/1"
HEADER_BYTES = 16 << 20
COPY_BYTES = 1 << 20


class UnreadableCheckpoint(Damaged):
    """The checkpoint was not written by this engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The content of a checkpoint: watermarks by dataset id, and the file of the engine's state."""

    watermarks: Mapping[str, Instant]
    state: Path | None = None


def read_checkpoint(path: str | None, scratch: Path) -> Checkpoint:
    """Read the checkpoint of the last iteration; without a path, return an empty one. The state is
    copied to a file in `scratch`.

    Raises:
        UnreadableCheckpoint: this engine did not write the file.
    """
    if path is None:
        return Checkpoint(watermarks={})
    try:
        with Path(path).open("rb") as stream:
            header = json.loads(stream.readline(HEADER_BYTES))
            if header["format"] != FORMAT:
                raise ValueError(header["format"])
            marks = {key: Instant.parse(text) for key, text in header["watermarks"].items()}
            state = _state(stream, scratch) if header["state"] else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, BadInput) as bad:
        raise UnreadableCheckpoint(
            f"the checkpoint is none of this engine ({bad}): reset the derivative"
        ) from None
    return Checkpoint(watermarks=marks, state=state)


def holds_state(path: Path) -> bool:
    """Return whether a checkpoint has state. False for one that this engine cannot read."""
    header = _header(path)
    return header is not None and bool(header.get("state"))


def is_ours(path: Path) -> bool:
    """Return whether this engine can read the checkpoint."""
    return _header(path) is not None


def _header(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as stream:
            header = json.loads(stream.readline(HEADER_BYTES))
        return header if header["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_checkpoint(path: Path, after: Checkpoint) -> bool:
    """Write the checkpoint and return true. If it is empty, write no file and return false."""
    if not after.watermarks and after.state is None:
        return False
    header = {
        "format": FORMAT,
        "state": after.state is not None,
        "watermarks": {key: str(mark) for key, mark in after.watermarks.items()},
    }
    line = json.dumps(header, sort_keys=True, separators=(",", ":"))
    with path.open("wb") as out:
        out.write(line.encode() + b"\n")
        if after.state is not None:
            with after.state.open("rb") as state:
                shutil.copyfileobj(state, out, COPY_BYTES)
    return True


def watermarks_after(
    inputs: Sequence[TransformRequestInput], before: Mapping[str, Instant]
) -> dict[str, Instant]:
    """Return the newest watermark, by dataset id, of each input that ever had one."""
    known: dict[str, Instant] = {}
    for item in inputs:
        key = str(item.dataset_id)
        said = [mark.event_time for mark in item.explicit_watermarks]
        said += [marks[key] for marks in (before, known) if key in marks]
        if said:
            known[key] = max(said)
    return known


def output_watermark(
    inputs: Sequence[TransformRequestInput], known: Mapping[str, Instant]
) -> Instant | None:
    """Return the smallest watermark of all inputs; None if an input never had one."""
    marks = [known.get(str(item.dataset_id)) for item in inputs]
    return min((mark for mark in marks if mark), default=None) if all(marks) else None


def _state(stream: BinaryIO, scratch: Path) -> Path:
    path = scratch / "state"
    with path.open("wb") as out:
        shutil.copyfileobj(stream, out, COPY_BYTES)
    return path
