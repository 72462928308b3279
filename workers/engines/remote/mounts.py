"""What the container of an engine sees of the machine: the files of one query.

Inputs are links or copies that every user of the image can read; what it writes is copied
out and so belongs to us.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from odf_node.protocol.metadata.engine import TransformRequestInput

from ...runtime.log import LOGGER, line
from .runtimes import mounted

INSIDE = "/opt/engine"
OUTPUTS = f"{INSIDE}/out"


class Mounts:
    """Two folders, `in` and `out`, of a query."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self._inputs, self._outputs = base / "in", base / "out"
        base.chmod(0o755)
        self._inputs.mkdir()
        self._inputs.chmod(0o755)
        self._outputs.mkdir()
        self._outputs.chmod(0o777)  # the image may run as any user
        self._count = 0

    def options(self) -> list[str]:
        return [
            mounted(self._inputs, f"{INSIDE}/in"),
            mounted(self._outputs, OUTPUTS, writable=True),
        ]

    def shown(self, path: str) -> str:
        """The name inside of a file that the engine may read."""
        name = f"{self._count}{Path(path).suffix}"
        self._count += 1
        _provide(Path(path), self._inputs / name)
        return f"{INSIDE}/in/{name}"

    def shown_of(self, item: TransformRequestInput) -> TransformRequestInput:
        return replace(
            item,
            data_paths=tuple(self.shown(path) for path in item.data_paths),
            schema_file=self.shown(item.schema_file),
        )

    def give(self, name: str, target: str) -> None:
        """Put a file the engine wrote where it was asked for; links it made are not followed.

        Raises:
            PermissionError: only who wrote it can read it.
        """
        made = self._outputs / name
        if made.is_file() and not made.is_symlink():
            shutil.copyfile(made, target)


@contextmanager
def mounts_beside(target: str) -> Iterator[Mounts]:
    """The folders of a query, beside where its outputs go."""
    parent = Path(target).absolute().parent
    with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as name:
        yield Mounts(Path(name))
    if Path(name).exists():  # folders of another user cannot be emptied
        LOGGER.warning(line("files an engine wrote as another user stay behind", folder=name))


def _provide(path: Path, at: Path) -> None:
    if path.stat().st_mode & stat.S_IROTH:
        try:
            os.link(path, at)
        except OSError:  # another file system, or one without links
            shutil.copyfile(path, at)
    else:
        shutil.copyfile(path, at)
    # Of a link this is the file itself, which says so already.
    if not at.stat().st_mode & stat.S_IROTH:
        at.chmod(0o644)
