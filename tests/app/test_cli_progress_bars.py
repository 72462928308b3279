"""What a person who waits gets to see of a job."""

from __future__ import annotations

import pytest

from odf_node.cli.shell import output as progress_bars
from odf_node.cli.shell.asking import job_progress


@pytest.fixture
def bars(monkeypatch):
    """The bars of a terminal that is not there."""
    made = progress_bars._bars()
    made.disable = True
    monkeypatch.setattr(progress_bars, "_bars", lambda: made)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    return made


def test_phases_of_a_job_follow_each_other(bars):
    jobs = (
        {"status": "waiting"},
        {"status": "running", "progress": {"phase": "read", "rows": 10}},
        {"status": "running", "progress": {"phase": "read", "rows": 30}},
        {"status": "running", "progress": {"phase": "merge"}},
    )
    with progress_bars.stepwise(quiet=False) as step:
        seen = job_progress(step)
        for job in jobs:
            seen(job)
        shown = [(task.description, task.completed, task.total) for task in bars.tasks]
    assert shown == [("read", 30, 30), ("merge", 0, None)]


def test_executions_that_are_made_again_are_counted(bars):
    progress = {"phase": "execute", "rows": 7, "done": 3, "total": 40}
    with progress_bars.stepwise(quiet=False) as step:
        job_progress(step)({"status": "running", "progress": progress})
        shown = [(task.description, task.completed, task.total) for task in bars.tasks]
    assert shown == [("execute", 3, 40)]


def test_a_push_shows_that_the_node_commits(bars):
    with progress_bars.progress_bars(quiet=False) as progress:
        progress.expect_objects(1, 10)
        progress.object_bytes(10)
        progress.committing()
        shown = [(task.description, task.completed, task.total) for task in bars.tasks]
    assert shown == [("objects", 10, 10), ("commit", 0, None)]


def test_nobody_looks_at_json():
    with progress_bars.stepwise(quiet=True) as step:
        assert step is None
        assert job_progress(step) is None


def test_bytes_are_shown_with_units_and_speed(bars):
    column = bars.columns[-1]
    with progress_bars.stepwise(quiet=False) as step:
        step("sent", 8_258_905, 16_000_000)
        step("read", 3, 40)
        sent, read = (column.render(task).plain for task in bars.tasks)
    assert sent.startswith("8.3/16.0 MB ")
    assert read == " 3/40"
