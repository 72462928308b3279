"""The facts of the node for CommandGetSqlInfo. Drivers require exactly this type of the union.

Source: Arrow Flight SQL, `SqlInfo`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_KINDS: list[tuple[str, pa.DataType]] = [
    ("string_value", pa.utf8()),
    ("bool_value", pa.bool_()),
    ("bigint_value", pa.int64()),
    ("int32_bitmask", pa.int32()),
    ("string_list", pa.list_(pa.field("string_data", pa.utf8()))),
    ("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.field("$data$", pa.int32())))),
]
_TEXT, _FLAG, _NUMBER, _BITS = range(4)
SCHEMA = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", pa.dense_union([pa.field(name, kind) for name, kind in _KINDS])),
    ]
)
_LOWER_CASE, _AS_WRITTEN = 3, 1


def sql_info(asked: Sequence[int], version: str) -> pa.RecordBatch:
    """Return the requested facts that the node knows, or all facts if `asked` is empty."""
    facts: dict[int, tuple[int, str | bool | int]] = {
        0: (_TEXT, "ODF Node"),
        1: (_TEXT, version),
        2: (_TEXT, "1.3"),
        3: (_FLAG, True),  # read-only
        4: (_FLAG, True),  # SQL
        5: (_FLAG, False),  # Substrait
        8: (_BITS, 0),  # transactions: none
        9: (_FLAG, False),  # cancellation by a call of its own
        503: (_NUMBER, _LOWER_CASE),  # names without quotes
        504: (_TEXT, '"'),
        505: (_NUMBER, _AS_WRITTEN),  # names in quotes
        506: (_FLAG, True),  # all tables that are listed can be read
    }
    names = [name for name in sorted(facts) if not asked or name in asked]
    children = [
        pa.array([facts[name][1] for name in names if facts[name][0] == kind], of)
        for kind, (_, of) in enumerate(_KINDS)
    ]
    kinds = [facts[name][0] for name in names]
    offsets = [kinds[:at].count(kind) for at, kind in enumerate(kinds)]
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        children,
        [name for name, _ in _KINDS],
    )
    numbers = pa.array(names, pa.uint32())
    return pa.RecordBatch.from_arrays([numbers, values], schema=SCHEMA)
