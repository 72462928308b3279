"""Silence: a client that waits is left alone. The exchanges wait since before the first test."""

from __future__ import annotations

import time

import pytest

PING_INTERVAL_S = 20
"""How often WebSocket servers ping unless they are told not to."""


@pytest.mark.scenario("Z09")
def test_no_frame_comes_to_a_client_that_waits_however_long(waiting):
    time.sleep(max(0.0, waiting.since + PING_INTERVAL_S + 1 - time.monotonic()))
    spoken_to = [name for name, one in waiting.exchanges.items() if not one.socket.silent_for(0)]
    assert spoken_to == []
