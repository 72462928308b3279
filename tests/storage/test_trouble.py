"""A disk that takes no more, a database that is gone: said in one word, and nothing is torn."""

from __future__ import annotations

import errno
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from chain_maker import entry, long_chain
from processes import python_path

from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.objects.layout import (
    DatabaseUnavailable,
    StorageFull,
    StorageReadOnly,
    folder_trouble,
    storing,
)
from odf_storage.stores.objects.s3_bucket import FULL_CODES, _sorted_out
from odf_storage.stores.sql.engine import open_engine, reading

ROOT = Path(__file__).parents[2]
LIMITED = """
import sys
from pathlib import Path
from chain_maker import *
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.objects.layout import StorageFull
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
import resource
stores = open_stores(StoreSettings(data=Path(sys.argv[1]), durable=False))
blocks = long_chain(entry().id, 30)
dataset = stores.create_dataset(entry(), blocks[:1])
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
content = bytes(400_000)
key = ObjectKey(entry().id, ObjectKind.DATA, Multihash.of(content))
try:
    stores.objects.put(key, [content[:200_000], content[200_000:]])
except StorageFull as full:
    print(full.message)
assert stores.objects.stat(key) is None
print(stores.write_trouble())
try:
    for number in range(1, 30):
        more = [linked(blocks[0], SetInfo(description="x" * 200_000))]
        dataset.commit(more, expected=blocks[0].hash, force=True)
        blocks = [more[0]]
        break
    for number in range(200):
        more = [linked(blocks[0], SetInfo(description=f"{number} " + "y" * 20_000))]
        dataset.commit(more, expected=blocks[0].hash)
        blocks = more
except StorageFull as full:
    print(full.message)
print(dataset.head() in {block.hash for block in dataset.blocks()})
"""


def test_a_file_that_may_not_grow_is_a_full_store_and_nothing_is_torn(tmp_path: Path) -> None:
    path = python_path(ROOT / "tests/support")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, trouble, second, whole = done.stdout.splitlines()
    assert first == "the object store has no room left; nothing was stored"
    assert trouble == "None"
    assert second == "the database has no room left; nothing was stored"
    assert whole == "True"
    assert not list(tmp_path.rglob(".pending-*"))
    stores = open_stores(StoreSettings(data=tmp_path, durable=False))
    assert stores.write_trouble() is None
    stores.close()


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EROFS, StorageReadOnly),
        (errno.EACCES, StorageReadOnly),
        (errno.EIO, OSError),
    ],
)
def test_what_a_file_system_says_is_sorted_out(number: int, error: type[Exception]) -> None:
    with pytest.raises(error), storing():
        raise OSError(number, "as the system says")


def test_a_folder_that_takes_no_files_is_told(tmp_path: Path) -> None:
    assert folder_trouble(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, was[1]))
    try:
        assert folder_trouble(tmp_path) == "the data folder has no room left; nothing was stored"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_does_not_answer_is_not_available() -> None:
    engine = open_engine("postgresql://postgres@127.0.0.1:1/none")
    with pytest.raises(DatabaseUnavailable), reading(engine):
        pass
    engine.dispose()


def test_a_database_that_may_only_be_read_says_so(migrated_postgres_url: str) -> None:
    engine = open_engine(migrated_postgres_url)
    with engine.connect() as db:
        db.exec_driver_sql("SET TRANSACTION READ ONLY")
        with pytest.raises(StorageReadOnly):
            db.exec_driver_sql("CREATE TABLE no_more (a int)")
    engine.dispose()


def test_connections_that_the_server_ends_are_told_and_made_again(
    migrated_postgres_url: str,
) -> None:
    engine = open_engine(migrated_postgres_url)
    with pytest.raises(DatabaseUnavailable), engine.connect() as db:
        db.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
    with reading(engine) as db:
        assert db.exec_driver_sql("SELECT 1").scalar() == 1
    engine.dispose()


@pytest.mark.parametrize("code", sorted(FULL_CODES))
def test_a_bucket_that_is_full_says_so(code: str) -> None:
    assert isinstance(_sorted_out("put_object", code, 507), StorageFull)


def test_a_statement_that_is_wrong_is_no_trouble_of_the_node(tmp_path: Path) -> None:
    import sqlalchemy as sa

    stores = open_stores(StoreSettings(data=tmp_path, durable=False))
    stores.create_dataset(entry(), long_chain(entry().id, 1))
    assert stores.engine is not None
    with pytest.raises(sa.exc.OperationalError), reading(stores.engine) as db:
        db.exec_driver_sql("SELECT * FROM nowhere")
    stores.close()
