"""The real library on what a node serves: its store of generic file systems, over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile
from minimalkv._mixins import ExtendedKeyspaceMixin
from minimalkv.fsspecstore import FSSpecStore
from plateau_peer import Plateau

ROOT = "/platform/kartothek/"


class HttpFiles(AbstractFileSystem):
    """Files below `ROOT`, by HEAD and by ranges. `asked` are the methods and paths of requests."""

    cachable = False

    def __init__(self, client: httpx.Client) -> None:
        super().__init__()
        self.client = client
        self.asked: list[tuple[str, str]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """The library wants stores that it could send elsewhere."""
        return _again, (str(self.client.base_url), dict(self.client.headers))

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        self.asked.append((method, path))
        answer = self.client.request(method, ROOT + quote(path.strip("/"), safe="/"), **more)
        if answer.status_code == 404:
            raise FileNotFoundError(path)
        answer.raise_for_status()
        return answer

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        size = int(self.request("HEAD", path).headers["content-length"])
        return {"name": path, "size": size, "type": "file"}

    def _open(self, path: str, mode: str = "rb", **more: Any) -> AbstractBufferedFile:
        return _File(self, path, mode, size=self.info(path)["size"], cache_type="none")


def _again(url: str, headers: dict[str, str]) -> HttpFiles:
    return HttpFiles(httpx.Client(base_url=url, headers=headers, timeout=30))


class _File(AbstractBufferedFile):
    def _fetch_range(self, start: int, end: int) -> bytes:
        headers = {"range": f"bytes={start}-{end - 1}"}
        return self.fs.request("GET", self.path, headers=headers).content


class _Store(ExtendedKeyspaceMixin, FSSpecStore):
    """Keys with more characters than the plain store takes."""


class PlateauOverHttp(Plateau):
    """`plateau` on the published datasets of a node. The client brings its token."""

    def __init__(self, client: httpx.Client) -> None:
        self.files = HttpFiles(client)
        self.store = _Store(mkdir_prefix=False, custom_fs=self.files)
