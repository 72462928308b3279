"""The package for npm, put together in a folder: `python typescript/build.py [FOLDER]`.

The scripts that check a dataset are those of the node's pages, copied; nothing is compiled.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGES = ROOT / "app" / "odf_node" / "service" / "pages" / "static"
CHECK = ("walk.js", "blocks.js", "sha3.js")


def build(folder: Path) -> Path:
    """Make the package in `folder`, which is emptied before; return it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = [HERE / "package.json", HERE / "README.md", ROOT / "LICENSE"]
    sources += sorted((HERE / "src").iterdir())
    sources += [PAGES / name for name in CHECK]
    for source in sources:
        shutil.copyfile(source, folder / source.name)
    return folder


if __name__ == "__main__":
    build(Path(sys.argv[1]) if sys.argv[1:] else HERE / "dist")
