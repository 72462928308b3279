"""A real browser: Debian's Chromium without a window, driven by Playwright.

Its pages load nothing from elsewhere, and a test whose page complains on its console fails.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
NO_BROWSER = "no browser: chromium is not installed"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HERE = "127.0.0.1"
WIDE, NARROW = 1280, 390
"""Widths of pages in CSS pixels: a desk's and a telephone's."""
SCHEMES = ("light", "dark")
EYES = ((WIDE, "light"), (NARROW, "dark"))
"""Widths with schemes in which a page is looked at: each width and each scheme once, or with
`ODF_TORTURE=1` all pairs, as a look at all colours of a page takes seconds."""
if os.environ.get("ODF_TORTURE"):
    EYES = tuple((width, scheme) for width in (WIDE, NARROW) for scheme in SCHEMES)
AXE = Axe().axe_script
LOOK = """axe.run({resultTypes: ["violations"]}).then(
    found => found.violations.map(rule => `${rule.id}: ${rule.nodes[0].html.slice(0, 300)}`))"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that ends with the block."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=PROGRAM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Windows:
    """Opens pages, each in a context of its own: without cookies, without a cache.

    `complaints` are errors on their consoles and what they tried to load from elsewhere. A test
    that provokes some looks at them and clears the list.
    """

    browser: Browser
    complaints: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)

    def __call__(
        self,
        url: str,
        *,
        width: int = WIDE,
        scheme: str = "light",
        script: bool = True,
        **options: Any,
    ) -> Page:
        """The page of `url`; `script=False` turns JavaScript off."""
        size = {"width": width, "height": 900}
        options |= {"viewport": size, "color_scheme": scheme, "java_script_enabled": script}
        context = self.browser.new_context(**options)
        self.contexts.append(context)
        context.route("**/*", self._let_through)
        page = context.new_page()
        page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(url)
        return page

    def close(self) -> None:
        for context in self.contexts:
            context.close()

    def _let_through(self, route: Route) -> None:
        asked = urlsplit(route.request.url)
        if asked.scheme in ("data", "blob") or asked.hostname == HERE:
            route.continue_()
            return
        self.complaints.append(f"asked for {route.request.url}")
        route.abort()


def violations(page: Page) -> list[str]:
    """Rules of accessibility that the page breaks by axe-core, each with the first place."""
    if not page.evaluate("'axe' in window"):  # half a megabyte, which a document is given once
        page.evaluate(AXE)
    return [str(each) for each in page.evaluate(LOOK)]


def overflow(page: Page) -> int:
    """CSS pixels by which the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))
