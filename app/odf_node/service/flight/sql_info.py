"""The facts of the node for CommandGetSqlInfo. Drivers require exactly this type of the union.

The JDBC driver answers most of its `DatabaseMetaData` from them, and fails where one is missing, so
all of them are here. Source: Arrow Flight SQL, `SqlInfo`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_KINDS: list[tuple[str, pa.DataType]] = [
    ("string_value", pa.utf8()),
    ("bool_value", pa.bool_()),
    ("bigint_value", pa.int64()),
    ("int32_bitmask", pa.int32()),
    ("string_list", pa.list_(pa.field("string_data", pa.utf8()))),
    ("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.field("$data$", pa.int32())))),
]
_TEXT, _FLAG, _NUMBER, _BITS, _TEXTS, _MAP = range(6)
SCHEMA = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", pa.dense_union([pa.field(name, kind) for name, kind in _KINDS])),
    ]
)
_AS_WRITTEN = 1
_NULLS_LAST_ASCENDING = 0
NUMERIC = """abs acos asin atan atan2 ceil cos cot degrees exp floor ln log10 log2 pi power radians
round signum sin sqrt tan trunc"""
TEXTS = """ascii btrim char_length chr concat left length lower lpad ltrim octet_length repeat
replace reverse right rpad rtrim split_part strpos substr trim upper"""
TIMES = "date_part date_trunc to_timestamp"
SYSTEM = "coalesce nullif"
KEYWORDS = "ilike limit qualify unnest"
"""Words of the dialect that are none of the SQL standard of 2003."""
_FACTS: dict[int, tuple[int, Any]] = {
    0: (_TEXT, "ODF Node"),
    2: (_TEXT, "1.3"),
    3: (_FLAG, True),  # read-only
    4: (_FLAG, True),  # SQL
    5: (_FLAG, False),  # Substrait
    6: (_TEXT, ""),
    7: (_TEXT, ""),
    8: (_BITS, 0),  # transactions: none
    9: (_FLAG, False),  # cancellation by a call of its own
    10: (_FLAG, False),  # ingestion
    11: (_FLAG, False),
    100: (_NUMBER, 0),  # time limit of statements that a client may change: none
    101: (_NUMBER, 0),
    500: (_FLAG, False),  # CREATE CATALOG, SCHEMA, TABLE
    501: (_FLAG, False),
    502: (_FLAG, False),
    503: (_NUMBER, _AS_WRITTEN),  # names without quotes
    504: (_TEXT, '"'),
    505: (_NUMBER, _AS_WRITTEN),  # names in quotes
    506: (_FLAG, True),  # all tables that are listed can be read
    507: (_NUMBER, _NULLS_LAST_ASCENDING),
    508: (_TEXTS, KEYWORDS.upper().split()),
    509: (_TEXTS, NUMERIC.upper().split()),
    510: (_TEXTS, TEXTS.upper().split()),
    511: (_TEXTS, SYSTEM.upper().split()),
    512: (_TEXTS, TIMES.upper().split()),
    513: (_TEXT, "\\"),  # escape in patterns
    514: (_TEXT, ""),  # more characters in names without quotes
    515: (_FLAG, True),  # aliases of columns
    516: (_FLAG, True),  # null + 1 is null
    517: (_MAP, []),  # the function CONVERT of JDBC: none, CAST is to be written
    518: (_FLAG, True),  # aliases of tables, of any name
    519: (_FLAG, False),
    520: (_FLAG, True),  # ORDER BY an expression, or what is not selected
    521: (_FLAG, True),
    522: (_BITS, 0b11),  # GROUP BY what is not selected, and more than that
    523: (_FLAG, True),  # LIKE … ESCAPE
    524: (_FLAG, True),  # columns without nulls
    525: (_BITS, 0b111),  # grammar of ODBC: minimum, core, extended
    526: (_BITS, 0b1),  # SQL 92: entry
    527: (_FLAG, False),  # constraints
    528: (_BITS, 0b110),  # outer joins: limited, full
    529: (_TEXT, "schema"),
    530: (_TEXT, "procedure"),
    531: (_TEXT, "catalog"),
    532: (_FLAG, True),  # the catalogue begins a name
    533: (_BITS, 0),  # schemas in calls, definitions of indexes and rights
    534: (_BITS, 0),
    535: (_BITS, 0),  # DELETE and UPDATE at a cursor
    536: (_FLAG, False),  # SELECT FOR UPDATE
    537: (_FLAG, False),  # stored procedures
    538: (_BITS, 0b0111),  # subqueries: compared, EXISTS, IN; but no ANY and ALL
    539: (_FLAG, True),  # correlated ones
    540: (_BITS, 0b11),  # UNION, UNION ALL
    **dict.fromkeys(range(541, 556), (_NUMBER, 0)),  # lengths and counts: no limit known
    556: (_FLAG, True),  # a row is as long as all of its values
    **dict.fromkeys(range(557, 562), (_NUMBER, 0)),
    562: (_NUMBER, 0),  # isolation of transactions: none
    563: (_FLAG, False),
    564: (_BITS, 0b1),
    565: (_FLAG, False),
    566: (_FLAG, False),
    567: (_BITS, 0b10),  # results are read forwards
    568: (_BITS, 0),
    569: (_BITS, 0b10),  # and not changed
    570: (_BITS, 0),
    571: (_BITS, 0),
    572: (_FLAG, False),  # batches of updates
    573: (_FLAG, False),  # savepoints
    574: (_FLAG, False),  # parameters by name
    575: (_FLAG, False),
    576: (_FLAG, False),  # stored functions
}
"""Kind and value of a fact by its number; that of the version of the node is missing."""


def sql_info(asked: Sequence[int], version: str) -> pa.RecordBatch:
    """Return the requested facts that the node knows, or all facts if `asked` is empty."""
    facts = {**_FACTS, 1: (_TEXT, version)}
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
