"""What a service loads until it listens: no library of a door that nobody has used yet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOST = 392
"""Modules of ours, packages aside, that a service on an empty node loads. Lower it when there are
fewer."""
FOR_LATER = {
    "alembic": "a database of another version",
    "boto3": "a bucket",
    "datafusion": "a query, which has a process of its own",
    "graphql": "the search of another client",
    "grpc": "Flight SQL",
    "httpx": "a mirror, a webhook",
    "jinja2": "a page",
    "pandas": "nothing, but Arrow imports it for the first list if it can",
    "mcp": "a tool of a language model",
    "prometheus_client": "the page of metrics",
    "psycopg": "PostgreSQL",
    "pyspark": "workers alone",
    "rich": "output of commands",
    "sqlglot": "a query",
}
"""Large libraries, and what they are for: they are loaded with the first such thing."""
UNTIL_IT_LISTENS = """
import json, sys
from pathlib import Path
import pyarrow
from odf_node.cli.machine import serve
from odf_node.service.processes.server import NodeServer
from odf_node.service.settings import load_settings

loaded, startup = [], NodeServer.startup

def is_our_package(name, module):
    return name.startswith("odf_") and hasattr(module, "__path__")

async def started(self, sockets=None):
    await startup(self, sockets=sockets)
    pyarrow.array([1])
    loaded.extend(name for name, each in sys.modules.items() if not is_our_package(name, each))
    self.should_exit = True

NodeServer.startup = started
serve.run(load_settings(data=Path(sys.argv[1]), port=0, workers=0))
print(json.dumps(loaded))
"""


def loaded_by_a_start(data: Path) -> list[str]:
    command = [sys.executable, "-c", UNTIL_IT_LISTENS, str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


def test_a_service_loads_no_library_of_a_door_that_nobody_has_used(tmp_path: Path) -> None:
    loaded_by_a_start(tmp_path)  # makes the database
    loaded = loaded_by_a_start(tmp_path)
    roots = {name.partition(".")[0] for name in loaded}
    assert {name: FOR_LATER[name] for name in roots & set(FOR_LATER)} == {}
    assert sum(name.startswith("odf_") for name in loaded) <= MOST
