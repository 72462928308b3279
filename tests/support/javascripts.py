"""Scripts that use the package for npm, in Node and in Chromium.

A script is the body of an async function of `odf`, the package, and `given`; it returns JSON, in
which BigInt is `{"bigint": "…"}`. `refused(call)` is what an error tells.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from static_files import static_files

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "typescript"
NODE = shutil.which("node")
NPM = shutil.which("npm")
NO_NODE = "no JavaScript: node is not installed"
SECONDS = 300

Javascript = Callable[..., Any]
"""`run(script, **given)` returns what the script returns."""

RUN = """
const refused = async (call) => {
  try { await call(); return null; }
  catch ({ name, code = null, status = null, message, problem = null, retryAfter = null }) {
    return { name, code, status, message, problem, retryAfter };
  }
};
const plain = (_, value) => (typeof value === "bigint" ? { bigint: `${value}` } : value);
const Scripted = (async () => {}).constructor;
const run = async (odf, script, given) => {
  const made = new Scripted("odf", "given", "refused", script);
  return JSON.stringify((await made(odf, given, refused)) ?? null, plain);
};
"""
PROGRAM = (
    """import { readFileSync } from "node:fs";
import * as odf from "odf-node";
"""
    + RUN
    + """
const { script, given } = JSON.parse(readFileSync(0, "utf8"));
console.log(await run(odf, script, given));
"""
)
PAGE = (
    """async ([script, given]) => {
const odf = await import("/index.js");
"""
    + RUN
    + "return await run(odf, script, given);}"
)


def built(folder: Path) -> Path:
    """The package, as it is packed for npm."""
    subprocess.run([sys.executable, PACKAGE / "build.py", folder], check=True)
    return folder


def in_node(folder: Path) -> Javascript:
    if NODE is None:
        pytest.skip(NO_NODE)
    package = built(folder / "node_modules" / "odf-node")
    program = folder / "program.mjs"
    program.write_text(PROGRAM)

    def run(script: str, **given: Any) -> Any:
        asked = {"script": script, "given": {**given, "package": package.as_uri()}}
        done = subprocess.run(
            [str(NODE), program],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@contextmanager
def in_browser(folder: Path, browser: Browser) -> Iterator[Javascript]:
    """On a page of another origin than that of any node."""
    built(folder / "package")
    with static_files(folder / "package") as files, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{files.url}package.json")

        def run(script: str, **given: Any) -> Any:
            return json.loads(page.evaluate(PAGE, [script, {**given, "package": files.url[:-1]}]))

        yield run
