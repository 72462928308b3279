"""What a transform knows from one iteration to the next: watermarks, and state if it has some.

One plain file: a line of canonical JSON, then the state as it is. Equal knowledge gives equal
bytes. Inputs without a new watermark count with the last one, so it has to be kept; whoever
coordinates may as well repeat it in the request.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from odf_node.protocol.errors import BadInput, Damaged
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.engine import TransformRequestInput

FORMAT = "odf-node-checkpoint/1"
HEADER_BYTES = 16 << 20
COPY_BYTES = 1 << 20


class UnreadableCheckpoint(Damaged):
    """A checkpoint that this engine did not write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """`watermarks` by dataset id. `state` belongs to whatever keeps one."""

    watermarks: Mapping[str, Instant]
    state: Path | None = None


def read_checkpoint(path: str | None, scratch: Path) -> Checkpoint:
    """What the iteration before left; nothing without a path. The state is put in `scratch`.

    Raises:
        UnreadableCheckpoint: a file of something else.
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
    """Whether a checkpoint of ours holds more than watermarks; those of others do not say."""
    header = _header(path)
    return header is not None and bool(header.get("state"))


def is_ours(path: Path) -> bool:
    """Whether a checkpoint is one that this engine reads."""
    return _header(path) is not None


def _header(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as stream:
            header = json.loads(stream.readline(HEADER_BYTES))
        return header if header["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_checkpoint(path: Path, after: Checkpoint) -> bool:
    """Write what is worth to be known; no file, and false, if nothing is."""
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
    """The newest watermark of each input that ever had one."""
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
    """The smallest over all inputs; none while one of them never had any."""
    marks = [known.get(str(item.dataset_id)) for item in inputs]
    return min((mark for mark in marks if mark), default=None) if all(marks) else None


def _state(stream: BinaryIO, scratch: Path) -> Path:
    path = scratch / "state"
    with path.open("wb") as out:
        shutil.copyfileobj(stream, out, COPY_BYTES)
    return path
