"""Shapes of the messages of a node: the parser of the reference client, as a table.

As in the reference, wrong types, missing fields and unknown variants end the exchange, and unknown
fields are accepted. Unknown fields are noted, because no node of the protocol sends any.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

HASH = re.compile(r"f1620[0-9a-f]{64}")
DATASET_ID = re.compile(r"did:odf:fed01[0-9a-f]{64}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
Notes = list[str]
Shape = Callable[[Any, str, Notes], None]


class BadShape(Exception):
    """The reference client could not parse this message."""


def parsed(text: str, shape: Shape, notes: Notes) -> Any:
    """Return the message, and add odd but harmless facts to `notes`. Raise `BadShape`."""
    try:
        value = json.loads(text)
    except ValueError as broken:
        raise BadShape(f"not JSON: {broken}") from None
    shape(value, "$", notes)
    return value


def fields(**shapes: Shape) -> Shape:
    """Return the shape of an object. Fields whose names end with an underscore may be absent."""
    required = {name for name in shapes if not name.endswith("_")}
    known = {name.rstrip("_"): shape for name, shape in shapes.items()}

    def check(value: Any, path: str, notes: Notes) -> None:
        if not isinstance(value, Mapping):
            raise BadShape(f"{path} is no object")
        if missing := required - set(value):
            raise BadShape(f"{path} lacks {', '.join(sorted(missing))}")
        for name, item in value.items():
            if name in known:
                known[name](item, f"{path}.{name}", notes)
            else:
                notes.append(f"unknown field {path}.{name}")

    return check


def variant(**shapes: Shape) -> Shape:
    """Return the shape of `{"Name": content}`: exactly one key, and a known one."""

    def check(value: Any, path: str, notes: Notes) -> None:
        if not isinstance(value, Mapping) or len(value) != 1:
            raise BadShape(f"{path} is not one of {', '.join(shapes)}")
        name = next(iter(value))
        if name not in shapes:
            raise BadShape(f"{path}: unknown variant {name!r}")
        shapes[name](value[name], f"{path}.{name}", notes)

    return check


def integer(limit: int) -> Shape:
    """Return the shape of a number from 0 up to, but not including, `limit`."""

    def check(value: Any, path: str, _: Notes) -> None:
        if type(value) is not int or not 0 <= value < limit:
            raise BadShape(f"{path} is no integer from 0 to {limit - 1}")

    return check


def text(pattern: re.Pattern[str] | None = None) -> Shape:
    def check(value: Any, path: str, _: Notes) -> None:
        if not isinstance(value, str) or (pattern and pattern.fullmatch(value) is None):
            raise BadShape(f"{path} is not the text it must be")

    return check


def one_of(*words: str) -> Shape:
    def check(value: Any, path: str, _: Notes) -> None:
        if value not in words:
            raise BadShape(f"{path} is not one of {', '.join(words)}")

    return check


def many(shape: Shape) -> Shape:
    def check(value: Any, path: str, notes: Notes) -> None:
        if not isinstance(value, list):
            raise BadShape(f"{path} is no array")
        for number, item in enumerate(value):
            shape(item, f"{path}[{number}]", notes)

    return check


def nullable(shape: Shape) -> Shape:
    def check(value: Any, path: str, notes: Notes) -> None:
        if value is not None:
            shape(value, path, notes)

    return check


def octets(value: Any, path: str, _: Notes) -> None:
    """Check an array of numbers from 0 to 255; the constructor accepts nothing else."""
    try:
        if not isinstance(value, list):
            raise TypeError
        bytes(value)
    except (TypeError, ValueError):
        raise BadShape(f"{path} is no array of bytes") from None


U32, U64 = integer(1 << 32), integer(1 << 64)
EMPTY = fields()
PLAN = fields(
    num_blocks=U32,
    num_objects=U32,
    num_records=U64,
    bytes_in_raw_blocks=U64,
    bytes_in_raw_objects=U64,
)
FILE = fields(object_type=one_of("DataSlice", "Checkpoint"), physical_hash=text(HASH), size=U64)
TRANSFER_URL = fields(
    url=text(),
    headers=many(fields(name=text(), value=text())),
    expires_at_=nullable(text(TIME)),
)
PHASE = variant(
    Push=one_of(
        "InitialRequest",
        "MetadataRequest",
        "ObjectsRequest",
        "EnsuringTargetExists",
        "ObjectsUploadProgress",
        "CompleteRequest",
    ),
    Pull=one_of("InitialRequest", "MetadataRequest", "ObjectsRequest"),
)
INTERNAL = fields(phase=PHASE, error_message=text())

PULL_RESPONSE = variant(
    Ok=fields(transfer_plan=PLAN),
    Err=variant(
        InvalidInterval=fields(head=text(HASH), tail=text(HASH)),
        Internal=INTERNAL,
        SeedBlockOverwriteRestricted=EMPTY,
    ),
)
PULL_METADATA = fields(
    blocks=fields(num_blocks=U32, media_type=text(), encoding=text(), payload=octets)
)
PULL_OBJECTS = fields(
    object_transfer_strategies=many(
        fields(object_file=FILE, pull_strategy=one_of("HttpDownload"), download_from=TRANSFER_URL)
    )
)
PUSH_RESPONSE = variant(
    Ok=EMPTY,
    Err=variant(
        InvalidHead=fields(actual_head_=nullable(text(HASH)), expected_head_=nullable(text(HASH))),
        Internal=INTERNAL,
    ),
)
PUSH_METADATA = variant(Ok=EMPTY, Err=variant(SeedBlockOverwriteRestricted=EMPTY))
PUSH_OBJECTS = variant(
    Ok=fields(
        object_transfer_strategies=many(
            fields(
                object_file=FILE,
                push_strategy=one_of("SkipUpload", "HttpUpload"),
                upload_to_=nullable(TRANSFER_URL),
            )
        )
    ),
    Err=variant(
        RefCollision=fields(dataset_id=text(DATASET_ID)),
        NameCollision=fields(dataset_alias=text()),
        Internal=INTERNAL,
    ),
)
