"""Small files of several folders that appear at once, and two syncs for all of them.

Each is written beside its target. Once all are on the disk each is renamed, in the order given,
and once the renames are on the disk all is done: a crash leaves of a file nothing or the whole.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from ..layout import PENDING_PREFIX
from . import files
from .file_writer import write_file
from .many_files import FEW
from .staged_files import sync_file_system

NamedContent = tuple[str, bytes]
"""The path of a file, and what it is to hold."""


def write_together(root: Path, wanted: Sequence[NamedContent], *, durable: bool) -> None:
    """Write files below `root`; what is there by one of the names is replaced.

    Raises:
        StorageFull, StorageReadOnly, FolderRemoved, OSError: some may have appeared, whole.
    """
    folders = list(dict.fromkeys(path.rpartition("/")[0] for path, _ in wanted))
    with files.writing_to(root), ExitStack() as open_folders:
        devices = {folder: _device(folder, durable=durable) for folder in folders}
        each = durable and len(wanted) + len(folders) <= FEW
        systems = _file_systems(devices, open_folders) if durable and not each else []
        pending = _written(wanted, sync=each)
        try:
            _sync_all(systems)
            for written, path in pending:
                os.rename(written, path)  # noqa: PTH104 - a Path costs more than the rename
        except BaseException:
            _remove(pending)
            raise
        _sync_all(systems)
        for folder in folders if each else ():
            files.sync_folder(Path(folder))


def _written(wanted: Iterable[NamedContent], *, sync: bool) -> list[tuple[str, str]]:
    """Name of each pending file, and of its target."""
    token, pending = secrets.token_hex(8), list[tuple[str, str]]()
    try:
        for number, (path, content) in enumerate(wanted):
            folder, _, _ = path.rpartition("/")
            pending.append((f"{folder}/{PENDING_PREFIX}{token}-{number}", path))
            write_file(pending[-1][0], content, sync=sync)
    except BaseException:
        _remove(pending)
        raise
    return pending


def _device(folder: str, *, durable: bool) -> int:
    """The file system a folder is on. One that is absent is made."""
    try:
        return os.stat(folder).st_dev  # noqa: PTH116 - as above
    except FileNotFoundError:
        files.make_folder(Path(folder), durable=durable)
        return os.stat(folder).st_dev  # noqa: PTH116


def _file_systems(devices: Mapping[str, int], kept_open: ExitStack) -> list[tuple[int, str]]:
    """A handle of each file system the folders are on, and its name.

    They are opened before the first file is written: a sync through one is told of every error
    since then.
    """
    found: dict[int, tuple[int, str]] = {}
    for folder, device in devices.items():
        if device not in found:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            kept_open.callback(os.close, handle)
            found[device] = handle, folder
    return list(found.values())


def _sync_all(systems: Iterable[tuple[int, str]]) -> None:
    for handle, name in systems:
        sync_file_system(handle, name)


def _remove(pending: Iterable[tuple[str, str]]) -> None:
    for written, _ in pending:
        with suppress(OSError):
            Path(written).unlink(missing_ok=True)
