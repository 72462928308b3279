"""The folders that the container of an engine sees: they hold the files of one query.

Inputs are links or copies that every user of the image can read. The node copies the outputs, so
its own user owns them.
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

from odf_protocol.metadata.engine import TransformRequestInput

from ...runtime.log import LOGGER, line
from .runtimes import mounted

INSIDE = "/opt/engine"
OUTPUTS = f"{INSIDE}/out"


class Mounts:
    """The folders `in` and `out` of one query."""

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
        """Make a file readable for the engine, and return its path in the container."""
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
        """Copy a file that the engine wrote to the target path. Symbolic links are ignored.

        Raises:
            PermissionError: only the user of the image can read it.
        """
        made = self._outputs / name
        if made.is_file() and not made.is_symlink():
            shutil.copyfile(made, target)


@contextmanager
def mounts_beside(target: str) -> Iterator[Mounts]:
    """Yield the folders of a query, in a temporary folder beside the file `target`."""
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
    # A hard link shares the mode of the original, which is readable already.
    if not at.stat().st_mode & stat.S_IROTH:
        at.chmod(0o644)
