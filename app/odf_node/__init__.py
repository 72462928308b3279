"""ODF Node: a repository node for Open Data Fabric, and datasets for Python programs.

    import odf_node

    weather = odf_node.open("https://node.example/weather")
    frame = weather.pandas(columns=["origin", "temp"], limit=1000)
    odf_node.node("https://node.example").search("weather hourly")
    odf_node.publish(frame, "https://node.example/copy", key=["origin"])

`open`, `node`, `publish`, `pull`, `push` and `verify` are imported when they are first used:
`import odf_node` costs nothing. The distribution installs six packages: this one has the service,
the client and the commands; `odf_protocol`, `odf_storage`, `odf_workers`, `odf_conformance` and
`odf_migrations` are described where they begin.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odf_protocol.errors import NodeError

    from .public.dataset import Dataset, pull, push, verify
    from .public.dataset import open_dataset as open  # noqa: A004 - as in `gzip.open`
    from .public.following import Changes, Following, Position
    from .public.node import Node
    from .public.node import Node as node  # noqa: N813 - it reads like `open`
    from .public.node import load_ipython_extension as load_ipython_extension
    from .public.publish import Receipt, publish
    from .public.spark import SparkSource as SparkSource

_PLACES = {
    "Changes": (".public.following", "Changes"),
    "Dataset": (".public.dataset", "Dataset"),
    "Following": (".public.following", "Following"),
    "Node": (".public.node", "Node"),
    "NodeError": ("odf_protocol.errors", "NodeError"),
    "Position": (".public.following", "Position"),
    "Receipt": (".public.publish", "Receipt"),
    "SparkSource": (".public.spark", "SparkSource"),
    "load_ipython_extension": (".public.node", "load_ipython_extension"),
    "node": (".public.node", "Node"),
    "open": (".public.dataset", "open_dataset"),
    "publish": (".public.publish", "publish"),
    "pull": (".public.dataset", "pull"),
    "push": (".public.dataset", "push"),
    "verify": (".public.dataset", "verify"),
}
# Without SparkSource: `import *` would need PySpark, which a reader need not have.
__all__ = [
    "Changes",
    "Dataset",
    "Following",
    "Node",
    "NodeError",
    "Position",
    "Receipt",
    "node",
    "open",
    "publish",
    "pull",
    "push",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module, __name__), attribute)
