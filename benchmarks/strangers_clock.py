"""Minutes of a stranger: to a frame, to a published file, to a colleague with access.

    python benchmarks/strangers_clock.py

A step is a command or something done on a page. Times are those of the machine: nobody reads,
thinks or types. Packages come from where pip is told to find them. The node, with its worker, runs
before the clock begins.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from browsers import chromium
from nodes import COMMAND, RunningNode, odf, served
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
ROWS = "Id;City;Founded;Population\n1;Oslo;31.12.1048;709037\n2;Bergen;1.1.1070;NA\n"
PASSWORD = "a long password of somebody"
NOT_SOURCE = (".*", "build", "dist", "tests", "*.egg-info", "__pycache__")
Step = Callable[[str], None]


@contextmanager
def story(name: str) -> Iterator[Step]:
    """Prints each step with the seconds since the one before, then the sum."""
    began = last = time.perf_counter()
    steps = 0

    def step(what: str) -> None:
        nonlocal last, steps
        now = time.perf_counter()
        steps += 1
        print(f"  {now - last:6.1f} s  {what}")
        last = now

    print(name)
    yield step
    print(f"  {time.perf_counter() - began:6.1f} s  in {steps} steps\n")


def run(*words: object, **env: str) -> str:
    done = subprocess.run(
        [*map(str, words)], env=os.environ | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wheel(folder: Path) -> Path:
    """The distribution, built of a copy of the tree."""
    source = folder / "source"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    uv = Path(sys.executable).parent / "uv"
    run(uv, "build", "--quiet", "--wheel", "--out-dir", folder / "wheels", source)
    return next((folder / "wheels").glob("*.whl"))


def to_a_frame(folder: Path, url: str) -> None:
    built = wheel(folder)
    venv.create(folder / "environment", with_pip=True)
    python = folder / "environment" / "bin" / "python"
    with story("from pip install to a pandas frame") as step:
        run(python, "-m", "pip", "install", "--quiet", "--no-cache-dir", built, "pandas")
        step("pip install pandas and the wheel, nothing cached")
        code = f"import odf_node; print(len(odf_node.open('{url}/cities').pandas()))"
        assert run(python, "-c", code) == "2\n"
        step("odf_node.open(url).pandas()")


def signed_in(browser: Browser, url: str, account: str) -> Page:
    page = browser.new_page()
    page.goto(url)
    page.fill('input[name="login"]', account)
    page.fill('input[name="password"]', PASSWORD)
    page.click("main button")
    return page


def to_a_published_file(folder: Path, browser: Browser, node: RunningNode) -> None:
    file = folder / "cities.csv"
    file.write_text(ROWS)
    with story("from a CSV with dates to a published dataset, in the browser") as step:
        page = signed_in(browser, f"{node.url}/v/sign-in?next=/v/publish", "kamu")
        step("sign in")
        page.set_input_files('input[type="file"]', str(file))
        page.click("text=Look at it")
        page.wait_for_selector('button[value="publish"]')
        step("choose the file; the proposal is shown")
        page.select_option('select[name="visibility"]', "public")
        page.click('button[value="publish"]')
        page.wait_for_url("**/cities")
        step("say that everybody may read it; publish; its page is shown")


def to_a_colleague(folder: Path, browser: Browser, node: RunningNode) -> None:
    theirs = {"ODF_NODE_CONFIG": str(folder / "theirs")}
    mine = {"ODF_NODE_TOKEN": node.token(), "ODF_NODE_URL": node.url}
    with story("from nothing to a colleague who reads a private dataset") as step:
        page = signed_in(browser, f"{node.url}/v/sign-in?next=/v/admin/accounts", "kamu")
        page.fill('form input[name="name"]', "bert")
        page.fill('form input[name="password"]', PASSWORD)
        page.click("text=Make it")
        page.wait_for_url("**/accounts/bert")
        step("the administrator makes an account on a page")
        odf("access", "grant", f"{node.url}/private", "bert", "reader", **mine)
        step("odf-node access grant")
        command = [COMMAND, "login", node.url]
        with subprocess.Popen(
            command, env=os.environ | theirs, stderr=subprocess.PIPE, text=True
        ) as login:
            assert login.stderr is not None
            said = ""
            while (found := re.search(r"http\S+deviceCode=\S+", said)) is None:
                said += login.stderr.readline()
            visitor = browser.new_context().new_page()
            visitor.goto(found[0])
            visitor.fill('input[name="login"]', "bert")
            visitor.fill('input[name="password"]', PASSWORD)
            visitor.click('button[value="approve"]')
            login.stderr.read()
            assert login.wait() == 0
        step("the colleague logs in: odf-node login, and its page")
        assert "Oslo" in odf("read", f"{node.url}/private", "--format", "csv", **theirs).stdout
        step("odf-node read")


def main() -> None:
    loads = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{os.cpu_count()} processors, load {loads}\n")
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        make = ("account", "create", "kamu", "--admin", "--password-stdin")
        subprocess.run(
            [COMMAND, *make, "--data", folder / "data"],
            input=PASSWORD,
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with served(folder / "data") as node:
            private = folder / "private.csv"
            private.write_text(ROWS)
            odf(
                "publish",
                private,
                "--node",
                node.url,
                "--yes",
                ODF_NODE_TOKEN=node.token(),
                ODF_NODE_URL=node.url,
            )
            to_a_published_file(folder, browser, node)
            to_a_frame(folder, node.url)
            to_a_colleague(folder, browser, node)


if __name__ == "__main__":
    main()
