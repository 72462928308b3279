"""An engine that takes every query and never ends one; what runs in the images of a test."""

from __future__ import annotations

import sys
import threading
from typing import Any

from odf_workers.engines.remote.container import IMAGE_PORT
from odf_workers.engines.remote.server import serve


class Endless:
    name, version = "endless", "1"

    def execute_transform(self, request: Any, listener: Any) -> Any:
        sys.stderr.write("a query that never ends\n")
        threading.Event().wait()

    execute_raw_query = execute_transform


if __name__ == "__main__":
    server, _ = serve(Endless(), f"0.0.0.0:{IMAGE_PORT}")
    server.wait_for_termination()
