"""What commands import to print their help: nothing that only their work needs."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = (
    "pandas", "pyarrow", "numpy", "sqlalchemy", "alembic", "fastapi", "starlette", "uvicorn",
    "datafusion", "pyspark", "sqlglot", "obstore", "boto3", "grpc", "polars", "duckdb",
    "httpx", "httpcore", "websockets", "multiformats", "rich", "graphql", "jinja2",
)  # fmt: skip
LOOK_INTO_FILES = {"dataset", "publish"}
"""Commands that propose datasets; their modules are those of Arrow's readers."""
ALL_HELPS = """
import io, json, sys
from contextlib import redirect_stdout
import click
from odf_node.cli.main import main

HEAVY = sys.argv[1:]
found, known = {}, set()

def look(command, words):
    with redirect_stdout(io.StringIO()):
        try:
            command.main([*words, "--help"], prog_name="odf-node")
        except SystemExit:
            pass
    loaded = [name for name in HEAVY if name in sys.modules]
    new = [name for name in loaded if name not in known]
    known.update(new)
    if new:
        found[" ".join(words)] = new

def walk(group, words):
    with click.Context(group) as ctx:
        for name in group.list_commands(ctx):
            look(main, [*words, name])
            inner = group.get_command(ctx, name)
            if isinstance(inner, click.Group):
                walk(inner, [*words, name])

walk(main, [])
print(json.dumps(found))
"""


def test_no_command_loads_a_library_for_its_help_alone():
    done = subprocess.run(
        [sys.executable, "-c", ALL_HELPS, *HEAVY], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert {name: of for name, of in found.items() if name not in LOOK_INTO_FILES} == {}
    assert {each for of in found.values() for each in of} <= {"pyarrow", "numpy"}


def test_a_dataset_is_opened_by_name_without_libraries_of_the_network():
    code = "import odf_node, sys; odf_node.open; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & set(HEAVY) == set()


def test_who_talks_to_a_node_loads_no_command_line_of_the_http_library():
    code = (
        "import sys; from odf_node.client.nodes.http import httpx, reach; reach.connected; "
        "httpx.Client; print(*sys.modules); from httpx._main import main"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "httpx" in loaded
    assert loaded.isdisjoint({"httpx._main", "rich", "pygments"})
