"""Records of JSON on lines of their own in a body that is called a document, whatever its name.

Proposals and readers ask this one question, so that a file is read as it was shown.
"""

from __future__ import annotations

import json

from ..metadata.sources import ReadStepNdGeoJson, ReadStepNdJson

_BOM = b"\xef\xbb\xbf"


def step_of_lines(begin: bytes) -> type[ReadStepNdJson] | type[ReadStepNdGeoJson] | None:
    """Return the read step for a body that begins with these bytes and has a record on each line,
    which no document has; None for others. The first line has to be among the bytes."""
    first, _, rest = begin.removeprefix(_BOM).lstrip().partition(b"\n")
    if not first.startswith(b"{") or not rest.lstrip().startswith(b"{"):
        return None
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return None
    is_feature = record.get("type") == "Feature" and "geometry" in record
    return ReadStepNdGeoJson if is_feature else ReadStepNdJson
