"""Who waits for a job is told if no worker takes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from service import serving, ten_rows

from odf_node.client.nodes.http import TransferFailed, open_http
from odf_node.client.nodes.limits import ClientLimits
from odf_node.client.nodes.node_api import NodeApi
from odf_node.client.nodes.notices import Notice


def test_a_job_that_no_worker_takes_is_told_of(tmp_path: Path) -> None:
    limits = ClientLimits(untaken_s=0.5, confirm_s=2)
    with serving(tmp_path) as service, open_http() as http:
        service.keep(ten_rows(), "kamu/rows")
        api = NodeApi(f"{service.url}/rows/", service.token(), http=http, limits=limits)
        with pytest.warns(Notice, match="no worker took job"), pytest.raises(TransferFailed):
            api.act("verify", seen=lambda _: None)
