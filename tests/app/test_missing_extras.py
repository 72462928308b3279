"""A command that lacks an optional part of the installation says in one sentence which it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

HIDING = """
import importlib.util, sys
class Hidden:
    def find_spec(self, name, *_):
        if name.partition('.')[0] == {module!r}:
            raise ModuleNotFoundError(name, name=name)
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == {module!r} else real(name, *more)
sys.meta_path.insert(0, Hidden())
from {program} import main
main()
"""
NODE, WORKER = "odf_node.cli.main", "odf_workers.main"


@pytest.mark.parametrize(
    ("module", "extra", "program", "words"),
    [
        ("pyspark", "spark", NODE, "serve --port 0"),
        ("psycopg", "postgres", NODE, "serve --database-url postgresql://odf@127.0.0.1:9/odf"),
        ("boto3", "s3", NODE, "serve --objects-url s3://bucket/prefix"),
        ("datafusion", "datafusion", NODE, "sql select(1) ."),
        ("psycopg", "postgres", WORKER, "--database-url postgresql://odf@127.0.0.1:9/odf"),
        ("pyspark", "spark", WORKER, "--once"),
    ],
)
def test_one_sentence_names_the_extra_that_is_missing(tmp_path, module, extra, program, words):
    code = HIDING.format(module=module, program=program)
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert f"odf-node[{extra}]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("program", "words"), [(NODE, "serve --workers 0 --port 0"), (WORKER, "--once")]
)
def test_a_database_that_cannot_be_reached_is_named(tmp_path, program, words):
    url = "postgresql://odf:secret@127.0.0.1:9/odf"
    code = f"from {program} import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split(), "--database-url", url],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert "127.0.0.1:9" in done.stderr
    assert "secret" not in done.stderr + done.stdout
