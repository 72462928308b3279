"""The package for npm: its files, its types, and what other packages make of its answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest
from javascripts import NODE, NPM, PACKAGE, ROOT, built
from service import serving
from table_made import TableMade

from odf_storage.stores.ports.values import Visibility

WIDE = 2**53 + 1

FILES = [
    *("LICENSE", "README.md", "blocks.js", "contract.d.ts", "dataset.js", "index.d.ts", "index.js"),
    *("node.js", "numbers.js", "package.json", "sha3.js", "transport.js", "walk.js"),
]


def test_the_package_has_its_files_and_needs_no_other(tmp_path):
    if NPM is None:
        pytest.skip("npm is not installed")
    package = built(tmp_path / "package")
    words = [NPM, "pack", "--json", "--ignore-scripts", "--pack-destination", tmp_path, package]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    (packed,) = json.loads(done.stdout)
    assert sorted(each["path"] for each in packed["files"]) == FILES
    assert (tmp_path / packed["filename"]).stat().st_size < 60_000
    told = json.loads((package / "package.json").read_text())
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & told.keys()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (told["version"], told["license"]) == (project["version"], project["license"])


def test_the_check_is_that_of_the_pages(tmp_path):
    package = built(tmp_path / "package")
    pages = ROOT / "app" / "odf_node" / "service" / "pages" / "static"
    for name in ("walk.js", "blocks.js", "sha3.js"):
        assert (package / name).read_bytes() == (pages / name).read_bytes()
    assert "walk.js" in (pages / "worker.js").read_text()


def test_the_types_of_the_contract_are_those_of_its_document():
    done = subprocess.run(
        [sys.executable, PACKAGE / "contract_types.py"], capture_output=True, text=True, check=True
    )
    renew = "python typescript/contract_types.py > typescript/src/contract.d.ts"
    assert done.stdout == (PACKAGE / "src" / "contract.d.ts").read_text(), f"run: {renew}"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the packages that its lock file names, and this one."""
    if NPM is None or NODE is None:
        pytest.skip("npm is not installed, and gives the compiler")
    folder = tmp_path_factory.mktemp("typed")
    needed = json.loads((PACKAGE / "package.json").read_text())["devDependencies"]
    (folder / "package.json").write_text(json.dumps({"devDependencies": needed}))
    for name in ("package-lock.json", "tsconfig.json"):
        shutil.copy(PACKAGE / name, folder)
    shutil.copytree(PACKAGE / "check", folder / "check")
    words = [NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"npm cannot install the compiler: {done.stderr[-300:]}")
    for place in ("dist", "node_modules/odf-node"):
        built(folder / place)
    return folder


def test_the_package_and_a_program_that_uses_all_of_it_have_the_right_types(modules):
    """Lines of the program that say so must be wrong."""
    compiler = modules / "node_modules" / "typescript" / "bin" / "tsc"
    words = [str(NODE), compiler, "--project", "."]
    done = subprocess.run(words, cwd=modules, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_arrow_reads_a_file_with_what_json_has_no_word_for(modules, tmp_path):
    odd = pa.schema([("f", pa.float64()), ("n", pa.int64())])
    rows = [(1e17, WIDE), (float("nan"), 2**53 - 1), (None, None)]
    program = modules / "arrow.mjs"
    program.write_text(
        """
        import { tableFromIPC } from "apache-arrow";
        import { open } from "odf-node";
        const table = tableFromIPC(await open(process.argv[2]).file({ format: "arrow" }));
        const [f, n] = ["f", "n"].map((name) => [...table.getChild(name)].map(String));
        console.log(JSON.stringify([f, n]));
        """
    )
    with serving(tmp_path / "node", tenancy="multi") as service:
        made = TableMade(service.node.stores, "alice/odd", odd, visibility=Visibility.PUBLIC)
        made.add([dict(zip(odd.names, row, strict=True)) for row in rows])
        words = [str(NODE), program, f"{service.url}/alice/odd"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    floats, whole = json.loads(done.stdout)
    assert floats == ["100000000000000000", "NaN", "null"]
    assert whole == [str(WIDE), str(2**53 - 1), "null"]
