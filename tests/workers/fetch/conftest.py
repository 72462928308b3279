"""A request for a fetch, allowed to reach loopback and the test's own folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odf_protocol.instant import Instant
from odf_workers.fetch.values import FetchRequest, FetchRules

NOW = Instant.parse("2050-01-01T12:00:00Z")


@pytest.fixture
def asked(tmp_path: Path) -> Callable[..., FetchRequest]:
    """Makes a request; keyword arguments are rules, `state` where the source left off."""
    made = 0

    def make(state: Any = None, **rules: Any) -> FetchRequest:
        nonlocal made
        made += 1
        folder = tmp_path / f"work-{made}"
        folder.mkdir()
        base = FetchRules(
            networks=("127.0.0.0/8",), roots=(tmp_path,), resolve=lambda host, port: ["127.0.0.1"]
        )
        return FetchRequest(
            state=state, system_time=NOW, folder=folder, rules=replace(base, **rules)
        )

    return make
