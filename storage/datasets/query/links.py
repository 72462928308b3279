"""Tables as folders of links: filled by the service, listed by the process of the query.

A folder is empty while the query is planned; then it gets a link for each slice that may hold rows
of the answer. The process never writes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def table_folder(links: Path, number: int) -> Path:
    return links / f"table-{number}"


def make_folders(links: Path, tables: int) -> None:
    """Tables with no rows yet."""
    for number in range(tables):
        table_folder(links, number).mkdir()


def link(links: Path, number: int, paths: Sequence[str]) -> None:
    """Give a table its files. Their names keep the order of the slices."""
    folder = table_folder(links, number)
    for at, path in enumerate(paths):
        (folder / f"{at:08}.parquet").symlink_to(path)
