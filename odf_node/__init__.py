"""ODF Node: a repository node for Open Data Fabric, and datasets for Python programs.

    import odf_node

    weather = odf_node.open("https://node.example/weather")
    frame = weather.pandas(columns=["origin", "temp"], limit=1000)
    odf_node.publish(frame, "https://node.example/copy", key=["origin"])

`open`, `publish`, `pull`, `push` and `verify` are imported when they are first used: `import
odf_node` costs nothing. Everything the distribution installs lies in this package. In a checkout
its rooms are links to the folders of the root: `odf_node.storage` is `storage/`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odf_node.app.public.changes import Changes, Position
    from odf_node.app.public.copies import pull, push, verify
    from odf_node.app.public.dataset import Dataset
    from odf_node.app.public.dataset import open_dataset as open  # noqa: A004 - as in `gzip.open`
    from odf_node.app.public.following import Following
    from odf_node.app.public.publish import Receipt, publish
    from odf_node.app.public.spark import SparkSource as SparkSource
    from odf_node.protocol.errors import NodeError

_PLACES = {
    "Changes": ("app.public.changes", "Changes"),
    "Dataset": ("app.public.dataset", "Dataset"),
    "Following": ("app.public.following", "Following"),
    "NodeError": ("protocol.errors", "NodeError"),
    "Position": ("app.public.changes", "Position"),
    "Receipt": ("app.public.publish", "Receipt"),
    "SparkSource": ("app.public.spark", "SparkSource"),
    "open": ("app.public.dataset", "open_dataset"),
    "publish": ("app.public.publish", "publish"),
    "pull": ("app.public.copies", "pull"),
    "push": ("app.public.copies", "push"),
    "verify": ("app.public.copies", "verify"),
}
# Without SparkSource: `import *` would need PySpark, which a reader need not have.
__all__ = [
    "Changes",
    "Dataset",
    "Following",
    "NodeError",
    "Position",
    "Receipt",
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
    return getattr(import_module(f"{__name__}.{module}"), attribute)
