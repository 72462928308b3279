"""Many small files at once, with the promises of `files.put_hashed` and one sync for all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path

from protocol.multihash import HashMismatch, Multihash

from ..layout import PENDING_PREFIX
from . import files
from .file_writer import write_file
from .staged_files import StagedFiles

FEW = 16
"""Up to so many files are synced one by one: that leaves the rest of the disk alone."""

Content = tuple[Multihash, bytes]


def put_all(folder: Path, contents: Iterable[Content], *, durable: bool) -> None:
    """Store each content in `folder` under its hash; known ones are only renewed, damaged ones
    replaced.

    Raises:
        HashMismatch: other content; none of them is visible.
    """
    waiting = iter(contents)
    first = list(islice(waiting, FEW + 1))
    if len(first) <= FEW:
        _put_each(folder, first, durable=durable)
        return
    with closing(StagedFiles(folder.parent, durable=durable)) as staged:
        for name, content in _checked(chain(first, waiting)):
            staged.add(str(name), content)
        if not staged.publish(folder):
            raise files.FolderRemoved


def _put_each(folder: Path, contents: list[Content], *, durable: bool) -> None:
    checked = list(_checked(contents))
    with files.writing_to(folder):
        files.make_folder(folder, durable=durable)
        token, pending = secrets.token_hex(8), list[tuple[str, str]]()
        try:
            for number, (name, content) in enumerate(checked):
                target = f"{folder}/{name}"
                if not files.holds(Path(target), name) or files.renew(Path(target)) is None:
                    pending.append((f"{folder}/{PENDING_PREFIX}{token}-{number}", target))
                    write_file(pending[-1][0], content, sync=durable)
            for written, target in pending:
                os.rename(written, target)  # noqa: PTH104 - a Path costs more than the rename
        except BaseException:
            for written, _ in pending:
                with suppress(OSError):
                    Path(written).unlink(missing_ok=True)
            raise
        if durable and pending:
            files.sync_folder(folder)


def _checked(contents: Iterable[Content]) -> Iterator[Content]:
    for name, content in contents:
        actual = Multihash.of(content)
        if actual != name:
            raise HashMismatch(name, actual)
        yield name, content
