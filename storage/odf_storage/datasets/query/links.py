"""Tables as folders of links: the service fills them, the query process lists them.

A folder is empty while the query is planned; then it gets a link for each slice that may have rows
of the result. The query process never writes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def table_folder(links: Path, number: int) -> Path:
    return links / f"table-{number}"


def make_folders(links: Path, tables: int) -> None:
    """Make the folders of the tables, empty at first."""
    for number in range(tables):
        table_folder(links, number).mkdir()


def link(links: Path, number: int, paths: Sequence[str]) -> None:
    """Link the files of a table. The names of the links keep the order of the slices."""
    folder = table_folder(links, number)
    for at, path in enumerate(paths):
        (folder / f"{at:08}.parquet").symlink_to(path)
