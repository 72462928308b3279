"""Every block of docs/reading.md runs as printed; that of Spark in the tests of its source."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reading_page import blocks, kinds
from service import Service, ten_rows

from odf_node.public.filesystem import OdfFileSystem


@pytest.fixture(scope="module")
def url(single: Service) -> str:
    single.keep(ten_rows().add_rows(5), "kamu/cities")
    return single.url


@pytest.fixture
def known() -> Iterator[None]:
    """As the entry point of the distribution does it."""
    import fsspec

    fsspec.register_implementation("odf", OdfFileSystem, clobber=True)
    yield
    OdfFileSystem.clear_instance_cache()


def test_all_languages_of_the_page_are_tried() -> None:
    assert kinds() == ["sh", "python", "python", "python", "sql", "spark", "r"]


def test_the_commands_of_a_shell(url: str, tmp_path: Path) -> None:
    (text,) = blocks("sh", url)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["city,population", "c5,500", "c6,600", "c7,700", "PAR1"]
    assert len(list(tmp_path.iterdir())) == 2


def test_the_programs_in_python(url: str, known: None) -> None:
    pandas, polars, arrow = blocks("python", url)
    names: dict[str, Any] = {}
    exec(pandas, names)
    assert len(names["cities"]) == 15
    assert list(names["names"]["city"]) == [f"c{n}" for n in range(15)]
    exec(polars, names)
    assert names["large"]["population"].to_list() == [100 * n for n in range(5, 15)]
    exec(arrow, names)
    assert names["files"].count_rows() == 15


def test_the_statements_of_duckdb(url: str) -> None:
    import duckdb
    import duckdb_extension_httpfs

    (text,) = blocks("sql", url)
    folder = Path(duckdb_extension_httpfs.__file__).parent
    with duckdb.connect() as db:
        db.load_extension(str(next(folder.rglob("*.duckdb_extension"))))
        found = [db.execute(each).fetchall() for each in text.strip().split(";") if each.strip()]
    assert found[1:] == [[(15, 14)], [("c14",)]]


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_the_program_in_r(url: str, tmp_path: Path) -> None:
    (text,) = blocks("r", url)
    program = tmp_path / "page.R"
    program.write_text(f"{text}\ncat(nrow(cities), large$city)\n")
    done = subprocess.run(["Rscript", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["15", *(f"c{n}" for n in range(5, 15))]
