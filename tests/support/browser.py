"""A real browser by its debugging protocol: Chromium without a window."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --remote-debugging-port=0"
)
START_S = 20


class Tab:
    """One page; `complaints` are what the browser had to say about it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")

    def open(self, url: str) -> None:
        self._ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """Value of an expression in the page."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise ValueError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, condition: str, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(condition)
            time.sleep(0.1)

    def _ask(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=START_S))
            if message.get("id") == number:
                return message["result"]
            if message.get("method") == "Log.entryAdded":
                self.complaints.append(message["params"]["entry"]["text"])


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A tab of a fresh browser whose profile is in `folder`."""
    command = [str(PROGRAM), *FLAGS.split(), f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = _port(folder / "DevToolsActivePort")
        tabs = httpx.get(f"http://127.0.0.1:{port}/json").json()
        address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        with connect(address, max_size=None) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        process.wait(timeout=START_S)


def _port(file: Path) -> int:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text()):
            return int(text.split()[0])
        time.sleep(0.05)
    raise TimeoutError("the browser did not start")
