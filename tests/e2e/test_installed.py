"""The built wheel in an environment of its own, beside a user's files of any name."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import nodes
import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
NOT_SOURCE = (".*", "build", "dist", "tests", "*.egg-info", "__pycache__")
"""What building would read or leave behind in the checkout."""
THEIRS = ("app", "conformance", "migrations", "protocol", "storage", "workers")
ROWS = '{"city": "Oslo", "population": 700000}\n{"city": "Rome", "population": 2800000}\n'


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; what it depends on comes from the one of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    wheels, environment, source = folder / "wheels", folder / "environment", folder / "source"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    _run(UV, "build", "--quiet", "--wheel", "--out-dir", wheels, source)
    venv.create(environment, with_pip=False)
    (wheel,) = wheels.glob("*.whl")
    python = environment / "bin" / "python"
    _run(UV, "pip", "install", "--quiet", "--no-deps", "--python", python, wheel)
    (packages,) = environment.glob("lib/python3*/site-packages")
    # A folder on the path: files in it that would lead to a checkout are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return environment


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with modules of a user, which fail whoever imports them."""
    for name in THEIRS:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('this is the module of a user')")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").write_text("raise RuntimeError('tests of a user')")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_installs_one_package(installed: Path) -> None:
    (packages,) = installed.glob("lib/python3*/site-packages")
    tops = {each.name for each in packages.iterdir() if each.is_dir() and "-" not in each.name}
    assert tops - {"__pycache__"} == {"odf_node"}
    code = "import odf_node.app.client.sync as m; print(m.__file__)"
    assert Path(_run(installed / "bin" / "python", "-P", "-c", code).strip()).is_relative_to(
        installed
    )


def test_the_wheel_brings_a_file_system_that_others_find(installed: Path) -> None:
    code = "import fsspec; print(fsspec.get_filesystem_class('odf').__module__)"
    found = _run(installed / "bin" / "python", "-P", "-c", code).strip()
    assert found == "odf_node.app.public.filesystem"


@pytest.fixture
def node(
    installed: Path, user: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[nodes.RunningNode]:
    monkeypatch.setattr(nodes, "COMMAND", installed / "bin" / "odf-node")
    monkeypatch.setenv("PYTHONPATH", str(user))
    with nodes.served(user / "data") as node:
        yield node


def test_a_node_runs_beside_modules_of_a_user_that_have_our_folders_names(
    node: nodes.RunningNode, user: Path
) -> None:
    (user / "cities.yaml").write_text(
        "kind: DatasetSnapshot\nversion: 1\ncontent:\n  name: cities\n  kind: Root\n  metadata:\n"
        "    - kind: AddPushSource\n      sourceName: default\n      read: {kind: NdJson}\n"
        "      merge: {kind: Append}\n"
    )
    (user / "rows.ndjson").write_text(ROWS)
    token = node.token()
    nodes.odf("dataset", "create", user / "cities.yaml", "--node", node.url, "--token", token)
    nodes.odf("ingest", user / "rows.ndjson", f"{node.url}/cities", "--token", token)
    nodes.odf("pull", f"{node.url}/cities", user / "pulled", "--token", token)
    nodes.odf("verify", user / "pulled")
    with node.http() as http:
        found = {path: http.get(path).status_code for path in ("/openapi.json", "/v/style.css")}
    assert set(found.values()) == {200}, found
    assert sum(path.stat().st_size for path in (user / "pulled" / "data").iterdir()) > 0
