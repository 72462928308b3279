"""Marks of what a poll took, as attributes of its block: the hash of the body, and files by name.

The source state of the specification holds what a server says of a body: its tag or its time. Some
servers repeat a tag with other bytes, or give the same bytes another tag, and the state of a folder
names one file of many. The marks say what was taken; nodes that do not know them ignore them.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from ..codec.manifests import to_data
from ..metadata.attributes import Attributes, MalformedAttributes, canonical_json
from ..metadata.events import AddData, SetPollingSource
from ..multihash import Multihash

BODY_KEY = "odf-node/sourceBody"
"""Hash of the bytes of an address, with the event time that its path gives them, if any."""
CONTENT_KEY = "odf-node/sourceContent"
"""The same of what a reader reads of the bytes, if that is not the bytes themselves: packed anew, a
file has other bytes."""
ADDRESS_KEY = "odf-node/sourceAddress"
"""Hash of the address that gave the bytes and of the headers it got: the tag and the time of one
address say nothing of the file at another."""
REDIRECT_KEY = "odf-node/sourceRedirect"
"""The same of the address that gave the bytes after redirects, if there were any."""
DEFINITION_KEY = "odf-node/sourceDefinition"
"""Hash of how the source made rows of the bytes: another definition makes other rows of them."""
FILES_KEY = "odf-node/sourceFiles"
"""Hashes of files of a folder by name, of their content if they are packed; empty for a hash that
was forgotten."""
FORGOTTEN_KEY = "odf-node/sourceFilesForgotten"
"""Names were too many for a merged block; files that are older than the block count as taken."""
FILES_CHARS = 256 << 10
"""Limit of the names and hashes that a merged block keeps."""
_OF_BODY = (BODY_KEY, CONTENT_KEY)
_REPEATED = (*_OF_BODY, ADDRESS_KEY, REDIRECT_KEY, DEFINITION_KEY)
KEYS = (*_REPEATED, FILES_KEY, FORGOTTEN_KEY)
Marks = Mapping[str, Any]


def marks_of(event: AddData | None) -> dict[str, Any]:
    """Return the marks of a block; none if its attributes are not read."""
    if event is None or event.extra is None or not any(k in event.extra.text for k in KEYS):
        return {}
    try:
        return {key: event.extra.value[key] for key in KEYS if key in event.extra.value}
    except MalformedAttributes:
        return {}


def repeated_marks(event: AddData | None) -> dict[str, Any]:
    """Return the marks that a block repeats with the source state of the one before."""
    return {key: value for key, value in marks_of(event).items() if key in _REPEATED}


def address_mark(url: str, headers: Sequence[tuple[str, str]], key: bytes) -> str:
    """Return the mark of an address, with the headers that are sent to it. With a key nobody
    without it can try which values of templates give this mark."""
    text = canonical_json([url, headers]).encode()
    if key:
        text = hmac.digest(key, b"source address:" + text, "sha3_256")
    return str(Multihash.of(text))


def definition_mark(source: SetPollingSource) -> str:
    """Return the mark of how a source makes rows of bytes, wherever they come from."""
    data = to_data(source)
    read = {name: data.get(name) for name in ("prepare", "read", "preprocess", "merge")}
    time = data["fetch"].get("eventTime")
    return str(Multihash.of(canonical_json({**read, "eventTime": time}).encode()))


def is_defined_anew(marks: Marks, last: Marks) -> bool:
    """Whether the last body was read by another definition than the one of these marks, as far as
    they tell."""
    noted = last.get(DEFINITION_KEY)
    return DEFINITION_KEY in marks and noted not in (None, marks[DEFINITION_KEY])


def is_same_content(marks: Marks, last: Marks) -> bool:
    """Whether a reader reads the same of two bodies."""
    contents = [each.get(CONTENT_KEY, each.get(BODY_KEY)) for each in (marks, last)]
    return contents[0] is not None and contents[0] == contents[1]


def is_repeat(marks: Marks, last: Marks) -> bool:
    """Whether the marks of a body say that it is the one of the last block, read in the same way:
    its bytes, or what a reader reads of them, now packed and then plain as well."""
    if is_defined_anew(marks, last):
        return False
    known = [last[key] for key in _OF_BODY if key in last]
    return any(marks[key] in known for key in _OF_BODY if key in marks)


def body_hash(marks: Marks) -> str | None:
    """Return the hash of the bytes of an address, without their event time; None if unknown."""
    body = marks.get(BODY_KEY)
    return str(body).partition("@")[0] if body else None


def files_of(marks: Marks) -> dict[str, str]:
    """Return the hashes of the files of a block by name."""
    found = marks.get(FILES_KEY)
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def with_marks(extra: Attributes | None, marks: Marks) -> Attributes | None:
    """Return the attributes of a block with its marks."""
    if not marks:
        return extra
    return Attributes.of({**({} if extra is None else extra.value), **marks})


def merged_marks(events: Sequence[AddData]) -> dict[str, Any]:
    """Return the marks of a block that replaces several: the newest body, the files of all."""
    every = [marks_of(event) for event in events]
    merged = dict(every[-1])
    files = {name: hash_ for marks in every for name, hash_ in files_of(marks).items()}
    forgotten = any(FORGOTTEN_KEY in marks for marks in every)
    if len(canonical_json(files)) > FILES_CHARS:
        files, forgotten = dict.fromkeys(files, ""), forgotten
    if len(canonical_json(files)) > FILES_CHARS:
        files, forgotten = {}, True
    merged.pop(FILES_KEY, None)
    return {
        **merged,
        **({FILES_KEY: files} if files else {}),
        **({FORGOTTEN_KEY: True} if forgotten else {}),
    }
