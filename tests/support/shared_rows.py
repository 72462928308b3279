"""Rows of shared tables by the answers of a node: which offsets its deletion vectors leave."""

from __future__ import annotations

import json
import struct
from typing import Any

import httpx
import numpy as np

from odf_protocol.delta.vectors import positions

DELTA = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors"}
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def shown_offsets(http: httpx.Client, alias: str, schema: str, **asked: Any) -> list[int]:
    """Of the rows that a client of Delta Sharing shows. `alias`: of a single-tenant node."""
    path = f"/delta-sharing/shares/kamu/schemas/{schema}/tables/{alias}/query"
    answer = http.post(path, json=asked, headers=DELTA)
    assert answer.status_code == 200, answer.text
    found: list[int] = []
    for line in answer.text.splitlines()[2:]:
        file = json.loads(line)["file"]
        action = file["deltaSingleAction"]["add"] if "deltaSingleAction" in file else file
        stats = json.loads(action["stats"])
        here = np.arange(stats["minValues"]["offset"], stats["maxValues"]["offset"] + 1)
        if "deletionVector" in action:
            here = np.delete(here, dead_positions(action["deletionVector"]))
        found += here.tolist()
    return found


def dead_positions(vector: dict[str, Any]) -> np.ndarray[Any, Any]:
    text = vector["pathOrInlineDv"]
    raw = bytearray()
    for at in range(0, len(text), 5):
        number = 0
        for digit in text[at : at + 5]:
            number = 85 * number + _DIGITS.index(digit)
        raw += struct.pack(">I", number)
    found = positions(bytes(raw[4 : vector["sizeInBytes"]]))
    assert len(found) == vector["cardinality"]
    return found
