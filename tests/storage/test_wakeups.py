"""Bells wake who listens, in this process and in others, and are never a reason to fail."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from chain_maker import entry, long_chain

from odf_protocol.identity import DatasetId
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import JobSpec, Succeeded
from odf_storage.stores.wakeups.wakeups import PipeWakeUp, Topic

SOON_S, LONG_S = 0.05, 60.0


@pytest.fixture
def pipes(tmp_path: Path) -> PipeWakeUp:
    return PipeWakeUp(tmp_path / "a long folder name" / "bells")


def test_work_and_ends_ring_in_every_store(stores: Stores) -> None:
    with stores.wake_up.listen(Topic.WORK) as work, stores.wake_up.listen(Topic.ENDED) as ended:
        job = stores.jobs.submit(JobSpec("ingest", DatasetId(bytes(32)), {}))
        assert work.wait(LONG_S)
        assert not ended.wait(SOON_S)
        stores.jobs.claim("w", ["ingest"], lease=timedelta(seconds=30))
        stores.jobs.extend(job, "w", lease=timedelta(seconds=30), progress={"rows": 1})
        assert ended.wait(LONG_S)
        stores.jobs.finish(job, "w", Succeeded({}))
        assert ended.wait(LONG_S)


def test_heads_that_move_ring_in_every_store(stores: Stores) -> None:
    created = entry()
    seed, second = long_chain(created.id, 2)
    with stores.wake_up.listen(Topic.MOVED) as moved:
        stores.registry.create(created, blocks=[seed])
        assert moved.wait(LONG_S)
        stores.refs.move(created.id, expected=seed.hash, new=second.hash, blocks=[second])
        assert moved.wait(LONG_S)
        with pytest.raises(RefConflict):
            stores.refs.move(created.id, expected=seed.hash, new=second.hash, blocks=[second])
        assert not moved.wait(SOON_S)


def test_a_ring_before_the_wait_is_not_lost(stores: Stores) -> None:
    with stores.wake_up.listen(Topic.WORK) as listener:
        for _ in range(3):
            stores.jobs.submit(JobSpec("ingest", DatasetId(bytes(32)), {}))
        assert listener.wait(LONG_S)
        while listener.wait(SOON_S):  # as many as came
            pass
        began = time.monotonic()
        threading.Timer(
            0.1, lambda: stores.jobs.submit(JobSpec("ingest", DatasetId(bytes(32)), {}))
        ).start()
        assert listener.wait(LONG_S)
        assert time.monotonic() - began < LONG_S / 2


def test_another_process_is_woken(pipes: PipeWakeUp, tmp_path: Path) -> None:
    folder = tmp_path / "a long folder name" / "bells"
    code = (
        "import sys; from pathlib import Path;"
        "from odf_storage.stores.wakeups.wakeups import PipeWakeUp;"
        "from odf_storage.stores.wakeups.wakeups import Topic;"
        "PipeWakeUp(Path(sys.argv[1])).send(Topic.WORK)"
    )
    with pipes.listen(Topic.WORK) as listener:
        subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
        assert listener.wait(LONG_S)


def test_the_pipe_of_a_killed_process_is_cleared_away(pipes: PipeWakeUp, tmp_path: Path) -> None:
    folder = tmp_path / "a long folder name" / "bells"
    with pipes.listen(Topic.WORK) as listener:
        os.mkfifo(folder / "work-0-dead")
        pipes.send(Topic.WORK)
        assert listener.wait(LONG_S)
        assert not (folder / "work-0-dead").exists()
    assert list(folder.iterdir()) == []


def test_a_full_pipe_and_no_folder_are_no_errors(pipes: PipeWakeUp, tmp_path: Path) -> None:
    pipes.send(Topic.WORK)
    with pipes.listen(Topic.WORK) as listener:
        pipe = next((tmp_path / "a long folder name" / "bells").iterdir())
        handle = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while os.write(handle, b"!" * 4096):
                pass
        os.close(handle)
        pipes.send(Topic.WORK)
        assert listener.wait(LONG_S)
        assert not listener.wait(SOON_S)


def test_where_no_pipe_can_be_made_nothing_is_heard_and_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    wake_up = PipeWakeUp(tmp_path / "file" / "bells")
    wake_up.send(Topic.WORK)
    with wake_up.listen(Topic.WORK) as listener:
        assert not listener.wait(SOON_S)
