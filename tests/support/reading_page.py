"""The blocks of docs/reading.md, for the tests that run them."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reading.md"


def kinds() -> list[str]:
    """Languages of the blocks, in their order."""
    return re.findall(r"^```(\w+)$", PAGE.read_text(), re.MULTILINE)


def blocks(kind: str, url: str) -> list[str]:
    """Those of a language, as they are said to the node at `url`."""
    found = re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [text.replace("127.0.0.1:8080", url.removeprefix("http://")) for text in found]
