"""An outage is a line of the log, not a traceback for each thread that meets it."""

from __future__ import annotations

import io
import logging

import pytest
import sqlalchemy as sa

from odf_protocol.errors import Unavailable
from odf_storage.runtime.logs import OUTAGE_S, JsonLines, Outages, TextLines, set_up


class StoreAway(Unavailable):
    """The store is away."""


@pytest.fixture(params=[TextLines, JsonLines])
def logged(request):
    clock, stream = [0.0], io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(request.param())
    handler.addFilter(Outages(lambda: clock[0]))
    log = logging.getLogger("odf.test.outages")
    log.propagate = False
    log.addHandler(handler)
    yield log, stream, clock
    log.removeHandler(handler)


def failing(log, error, times=1):
    for _ in range(times):
        try:
            try:
                raise error
            except Exception as cause:
                raise RuntimeError("the look failed") from cause
        except RuntimeError:
            log.exception("jobs were not looked at")


def test_attempts_during_an_outage_are_one_line_until_a_while_has_passed(logged):
    log, stream, clock = logged
    failing(log, StoreAway("no answer\nfrom the store"), times=100)
    (only,) = stream.getvalue().splitlines()
    assert "no answer" in only
    assert "StoreAway" in only
    clock[0] = OUTAGE_S
    failing(log, StoreAway("no answer"))
    again = stream.getvalue().splitlines()[-1]
    assert "unlogged" in again
    assert "99" in again


def test_an_error_of_the_database_driver_is_an_outage_and_any_other_keeps_its_traceback(logged):
    log, stream, _ = logged
    failing(log, sa.exc.OperationalError("select", {}, Exception("gone")), times=5)
    assert len(stream.getvalue().splitlines()) == 1
    failing(log, ValueError("a defect"), times=2)
    assert stream.getvalue().count("Traceback") in (4, 2)


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_of_a_program_has_one_line_of_an_outage(form, capsys):
    root, ours = logging.getLogger(), logging.getLogger("odf")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    try:
        set_up("info", form)
        failing(logging.getLogger("odf.test"), StoreAway("no answer"), times=30)
        failing(logging.getLogger("another"), StoreAway("no answer"), times=30)
    finally:
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        ours.setLevel(levels[1])
    (only,) = capsys.readouterr().err.splitlines()
    assert "StoreAway" in only
