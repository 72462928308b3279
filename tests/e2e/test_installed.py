"""The built wheel in an environment of its own, beside a user's files of any name."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import nodes
import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
NOT_SOURCE = (".*", "build", "dist", "tests", "*.egg-info", "__pycache__")
"""What building would read or leave behind in the checkout."""
THEIRS = ("app", "conformance", "migrations", "protocol", "storage", "workers")
PACKAGES = {"odf_node", *(f"odf_{room}" for room in THEIRS if room != "app")}
ROWS = '{"city": "Oslo", "population": 700000}\n{"city": "Rome", "population": 2800000}\n'


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    wheels, source = folder / "wheels", folder / "source"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    _run(UV, "build", "--quiet", "--wheel", "--out-dir", wheels, source)
    (wheel,) = wheels.glob("*.whl")
    return wheel


def _files(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {each: archive.read(each) for each in archive.namelist()}


def test_a_zip_of_the_repository_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    listed = _run("git", "-C", ROOT, "ls-files", "-z").split("\0")
    with ZipFile(tmp_path / "main.zip", "w") as archive:
        for name in filter(None, listed):
            archive.write(ROOT / name, name)
    with ZipFile(tmp_path / "main.zip") as archive:
        archive.extractall(tmp_path / "main")
    _run(UV, "build", "--quiet", "--wheel", "--out-dir", tmp_path, tmp_path / "main")
    (again,) = tmp_path.glob("*.whl")
    assert _files(again) == _files(wheel)
    laid = {"service/http/openapi.yaml", "service/pages/manual_pages/tour.md", "py.typed"}
    assert {f"odf_node/{each}" for each in laid} <= set(_files(wheel))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; what it depends on comes from the one of the tests."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    _run(UV, "pip", "install", "--quiet", "--no-deps", "--python", python, wheel)
    (packages,) = environment.glob("lib/python3*/site-packages")
    # A folder on the path: files in it that would lead to a checkout are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return environment


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with modules of a user, which fail whoever imports them."""
    folder = tmp_path_factory.mktemp("user")
    for name in THEIRS:
        (folder / f"{name}.py").write_text("raise RuntimeError('this is the module of a user')")
    (folder / "tests").mkdir()
    (folder / "tests" / "__init__.py").write_text("raise RuntimeError('tests of a user')")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def _run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_installs_its_packages_and_nothing_else(installed: Path) -> None:
    (packages,) = installed.glob("lib/python3*/site-packages")
    tops = {each.name for each in packages.iterdir() if each.is_dir() and "-" not in each.name}
    assert tops - {"__pycache__"} == PACKAGES
    code = "import odf_node.client.transfer.sync as m; print(m.__file__)"
    assert Path(_run(installed / "bin" / "python", "-P", "-c", code).strip()).is_relative_to(
        installed
    )


def test_the_wheel_brings_a_file_system_that_others_find(installed: Path) -> None:
    code = "import fsspec; print(fsspec.get_filesystem_class('odf').__module__)"
    found = _run(installed / "bin" / "python", "-P", "-c", code).strip()
    assert found == "odf_node.public.filesystem"


@pytest.fixture(scope="module")
def node(installed: Path, user: Path) -> Iterator[nodes.RunningNode]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes, "COMMAND", installed / "bin" / "odf-node")
        patch.setenv("PYTHONPATH", str(user))
        serve = (nodes.COMMAND, "serve")
        with nodes.served(user / "data", program=serve, ODF_WORKER_WARM_UP="false") as node:
            yield node


@pytest.fixture(scope="module")
def token(node: nodes.RunningNode, user: Path) -> str:
    """With which a dataset of two rows was made."""
    (user / "cities.yaml").write_text(
        "kind: DatasetSnapshot\nversion: 1\ncontent:\n  name: cities\n  kind: Root\n  metadata:\n"
        "    - kind: AddPushSource\n      sourceName: default\n      read: {kind: NdJson}\n"
        "      merge: {kind: Append}\n"
    )
    (user / "rows.ndjson").write_text(ROWS)
    token = node.token()
    given = ("--token", token)
    _run(nodes.COMMAND, "dataset", "create", user / "cities.yaml", "--node", node.url, *given)
    _run(nodes.COMMAND, "ingest", user / "rows.ndjson", f"{node.url}/cities", *given)
    return token


def test_a_node_runs_beside_modules_of_a_user_that_have_our_folders_names(
    node: nodes.RunningNode, user: Path, token: str
) -> None:
    _run(nodes.COMMAND, "pull", f"{node.url}/cities", user / "pulled", "--token", token)
    _run(nodes.COMMAND, "verify", user / "pulled")
    with node.http() as http:
        found = {path: http.get(path).status_code for path in ("/openapi.json", "/v/style.css")}
    assert set(found.values()) == {200}, found
    assert sum(path.stat().st_size for path in (user / "pulled" / "data").iterdir()) > 0


ONE_LINERS = {
    "pandas": "list(cities.pandas().city)",
    "polars": "cities.polars()['city'].to_list()",
    "duckdb": "[row[0] for row in cities.duckdb().project('city').fetchall()]",
    None: "cities.arrow()['city'].to_pylist()",
}


def test_each_one_liner_needs_the_wheel_and_the_library_that_it_names(
    node: nodes.RunningNode, token: str, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    begin = f"import odf_node; cities = odf_node.open('{node.url}/cities', token='{token}')"
    for library, line in ONE_LINERS.items():
        environment = tmp_path_factory.mktemp("fresh") / "environment"
        venv.create(environment, with_pip=False)
        python = environment / "bin" / "python"
        wanted = [wheel] if library is None else [wheel, library]
        pins = ("--constraint", ROOT / "requirements" / "test.txt")
        _run(UV, "pip", "install", "--quiet", "--python", python, *pins, *wanted)
        found = _run(python, "-P", "-I", "-c", f"{begin}; print({line})").strip()
        assert found == "['Oslo', 'Rome']", library
    _uses_the_client(python.parent, node, token, tmp_path_factory.mktemp("copies"))
    lacks = f"{begin}\ntry: cities.polars()\nexcept ImportError as told: print(told)"
    assert "pip install polars" in _run(python, "-P", "-I", "-c", lacks)


def _uses_the_client(bin_: Path, node: nodes.RunningNode, token: str, folder: Path) -> None:
    """Pull, verify, read and publish, without anything of a server installed."""
    copy, rows = folder / "copy", folder / "rows.csv"
    rows.write_text("city,population\nPoznań,540000\n")
    odf, given = bin_ / "odf-node", ("--token", token)
    _run(odf, "pull", f"{node.url}/cities", copy, *given)
    assert "valid" in _run(odf, "verify", copy)
    assert "Oslo" in _run(odf, "read", copy)
    _run(odf, "publish", rows, "more-cities", "--node", node.url, "--yes", *given)
    assert "Poznań" in _run(odf, "read", f"{node.url}/more-cities", *given)
    assert not list(bin_.parent.glob("lib/*/site-packages/sqlalchemy"))
