"""Fixtures shared by all rooms: the real PostgreSQL and the real S3 server of the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import S3Server, postgres, s3_server


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """SQLAlchemy URL of a real PostgreSQL, one for the whole run."""
    with postgres(_open_folder(tmp_path_factory, "postgres")) as (url, _process):
        yield url


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server, one for the whole run."""
    with s3_server(_open_folder(tmp_path_factory, "s3")) as server:
        yield server


def _open_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder whose parents other users may enter: PostgreSQL does not run as root."""
    folder = factory.mktemp(name)
    for parent in (factory.getbasetemp(), factory.getbasetemp().parent):
        parent.chmod(0o755)
    return folder
