"""A node for Python programs: search its datasets, and ask them in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from odf_protocol.errors import BadInput
from odf_storage.datasets.read.formats import MEDIA_TYPES, Format

from ..client.nodes.home import HOME, home_node
from ..client.nodes.http import open_http
from ..client.nodes.node_api import NodeApi
from ..client.nodes.remotes import Repositories
from ..client.nodes.targets import node_at
from .dataset import Dataset, open_dataset
from .following import Messages, tokens_of

if TYPE_CHECKING:
    import pyarrow as pa

FOUND = 100
"""Most datasets that a search returns by default."""


class Found(Sequence[Dataset]):
    """Datasets that a search found; a notebook shows them as a table."""

    def __init__(self, datasets: Sequence[Dataset], told: Sequence[Mapping[str, Any]]) -> None:
        self._datasets = datasets
        self.told = told
        """What the list of the node says of each."""

    def __getitem__(self, at: Any) -> Any:
        return self._datasets[at]

    def __len__(self) -> int:
        return len(self._datasets)

    def __repr__(self) -> str:
        return f"<{len(self)} dataset(s): {', '.join(str(one['alias']) for one in self.told)}>"

    def _repr_html_(self) -> str:
        from .notebook import list_html

        return list_html(self.told)


class Node:
    """A node: its URL, or the name of a repository; by default that at `ODF_NODE_URL`. Create it
    with `odf_node.node`; tokens are those of `odf_node.open`."""

    def __init__(self, url: str | None = None, *, token: str | None = None) -> None:
        named = url or home_node()
        if named is None:
            raise BadInput("UnsupportedUrl", f"name a node by its URL, or set {HOME}")
        repositories = Repositories()
        found = node_at(named, repositories)
        self._base, self._token = found.base, tokens_of(repositories, token)(found.base, found)

    def __repr__(self) -> str:
        return f"odf_node.node({self._base!r})"

    def search(self, words: str = "", *, limit: int = FOUND, **wanted: str | None) -> Found:
        """Return the datasets that have all these words in name, description, keywords, columns or
        license, and that you may see; without words, all. `wanted` may have `kind`, `account`,
        `visibility`, `keyword`, `license`, `since`, `sort` and `order`.

        Raises:
            RequestRefused: too many words, or an unknown value. TransferFailed.
        """
        with open_http() as http:
            api = NodeApi(self._base, self._token, http=http)
            told = [*islice(api.datasets(details=True, search=words, **wanted), limit)]
        urls = (self._base + quote(str(one["alias"])) for one in told)
        return Found([open_dataset(url, token=self._token) for url in urls], told)

    def sql(self, query: str, *, limit: int | None = None) -> pa.Table:
        """Return the rows of a query, one SELECT whose tables are names of datasets, in double
        quotes if necessary. The node computes them.

        Raises:
            RequestRefused: the node cannot run the query; its `facts` may have line and column.
        """
        import pyarrow as pa

        with open_http() as http:
            api = NodeApi(self._base, self._token, http=http)
            body = {"query": query, "limit": limit}
            accept = MEDIA_TYPES[Format.ARROW]
            with api.opened("query", body=body, accept=accept) as (_, stream):
                return pa.ipc.open_stream(pa.PythonFile(Messages(stream), "r")).read_all()


def load_ipython_extension(shell: Any) -> None:
    """Add the magic `%%odf [NODE]`: the cell is a query, its value the rows as a pandas frame, or
    as an Arrow table without pandas. `%load_ext odf_node` calls this."""
    shell.register_magic_function(_asked, "cell", "odf")


def _asked(line: str, cell: str) -> Any:
    from .frames import frame_of

    table = Node(line.strip() or None).sql(cell)
    try:
        return frame_of(table)
    except ImportError:
        return table
