"""Fixtures shared by all rooms: the real PostgreSQL and the real S3 server of the run."""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from servers import S3Server, postgres, s3_server
from two_ends import TwoEnds, place

if TYPE_CHECKING:
    from browsers import Windows
    from javascripts import Javascript
    from playwright.sync_api import Browser


# As in the Makefile: the processes of a run keep what they compile, also those that tests start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes says on a busy machine what else runs on it.
hypothesis.settings.register_profile(
    "tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tests")


_HOMES = TemporaryDirectory()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Commands keep what they remember of nodes in a folder of the test, not in the person's: the
    next test's node may listen at the same port."""
    os.environ["ODF_NODE_CONFIG"] = f"{_HOMES.name}/{abs(hash(item.nodeid))}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", type=Path, help="write to this file what each test costs")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("costs"):
        from costs import Costs

        config.pluginmanager.register(Costs(config.getoption("costs")))


def pytest_collection() -> None:
    """What is collected stays until the end: to look through it again and again for garbage takes
    a third of the time."""
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Nor is it looked through later, which would stand still whoever is measured."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return TwoEnds(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that play a scenario carry its number in their name: in reports, and for `-k`."""
    numbers = [str(mark.args[0]) for mark in metafunc.definition.iter_markers("scenario")]
    if numbers and "check" not in metafunc.fixturenames:
        metafunc.fixturenames.append("played")
        metafunc.parametrize("played", [None], ids=[" ".join(sorted(numbers))])


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Long bytes are named by their size: gzip writes the time into them, and the processes
    that share a run must agree on the names of its tests."""
    return f"{argname}-{len(val)}B" if isinstance(val, bytes) and len(val) > 16 else None


@pytest.fixture(scope="session", autouse=True)
def _quick_databases() -> Iterator[None]:
    """Stores that a test opens find their tables made; migrations have tests of their own."""
    import databases  # here, not above: tests of the protocol need no database

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "odf_storage.datasets.node.open_stores.migrate_database", databases.made_ready
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_disks() -> Iterator[None]:
    """What tests write needs to outlive no power cut: in this process nothing waits for a disk.
    Nodes that run as processes wait, and a test of syncs puts its own in their place."""
    import odf_storage.datasets.node.open_stores as opening

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "open_engine", _not_durable(opening.open_engine))
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, os.fstat)  # which refuses a bad handle likewise
        yield


def _not_durable(open_engine: Callable[..., Any]) -> Callable[..., Any]:
    def opened(url: str, **more: Any) -> Any:
        return open_engine(url, **{**more, "durable": False})

    return opened


@pytest.fixture(autouse=True)
def _throwaway_stores() -> Iterator[None]:
    """What a test has opened of them ends with it."""
    if "throwaway" not in sys.modules:  # nothing that was collected opens any
        yield
        return
    from throwaway import throwing_away

    with throwing_away():
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_clients() -> Iterator[None]:
    """Clients of HTTP are opened by the thousand: the certificates they trust are read once."""
    import httpx

    once = functools.cache(httpx.create_ssl_context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_yaml() -> Iterator[None]:
    """Tests read long documents, as the contract is: by the loader in C."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "safe_load", functools.partial(yaml.load, Loader=loader))
        patch.setattr(yaml, "safe_load_all", functools.partial(yaml.load_all, Loader=loader))
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_engines() -> Iterator[None]:
    """Tests make an engine each, or a node that answers queries: the process that loads DataFusion
    and forks one for each query is the same for all. Tests of that process make their own."""
    from odf_storage.runtime.children import Nursery

    shared: dict[str, Nursery] = {}

    def nursery(module: str, environment: dict[str, str], **more: Any) -> Nursery:
        return shared.setdefault(module, Nursery(module, environment, **more))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("odf_workers.engines.datafusion.engine.Nursery", nursery)
        patch.setattr("odf_node.service.query.engine.Nursery", nursery)
        yield
    for each in shared.values():
        each.stop()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """SQLAlchemy URL of a real PostgreSQL, one for the whole run.

    Its folder is not below pytest's own, which no other user may enter: as root, the server
    runs as somebody else.
    """
    with (
        TemporaryDirectory(prefix="odf-postgres-", ignore_cleanup_errors=True) as folder,
        postgres(Path(folder), durable=False) as (url, _process),
    ):
        yield url


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server, one for the whole run. What boto3 knows of S3 is read once, too."""
    from botocore.loaders import create_loader

    with (
        s3_server(tmp_path_factory.mktemp("s3")) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("botocore.session.create_loader", functools.cache(create_loader))
        yield server


@pytest.fixture(scope="session")
def s3_bucket_url(s3: S3Server) -> str:
    """Objects URL of a bucket on the S3 server of the run."""
    from buckets import make_bucket  # boto3 is slow to import

    return make_bucket(s3)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of a module.

    It does not outlive the module: while Playwright is open, its event loop counts as running in
    this thread, and tests of other modules run loops of their own.
    """
    import browsers  # Playwright: most tests need none

    if browsers.PROGRAM is None:
        pytest.skip(browsers.NO_BROWSER)
    with browsers.chromium() as browser:
        yield browser


@pytest.fixture(scope="module", params=["node", "chromium"])
def javascript(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Javascript]:
    """Runs scripts with the package for npm, in Node and in a browser."""
    import javascripts

    folder = tmp_path_factory.mktemp("javascript")
    if request.param == "node":
        yield javascripts.in_node(folder)
        return
    with javascripts.in_browser(folder, request.getfixturevalue("chromium")) as running:
        yield running


@pytest.fixture
def window(chromium: Browser) -> Iterator[Windows]:
    """Opens pages of a node: `window(url, width=390, scheme="dark", script=False)`."""
    from browsers import Windows

    opened = Windows(chromium)
    yield opened
    opened.close()
    assert opened.complaints == []
