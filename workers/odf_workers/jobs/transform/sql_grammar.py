"""Whether a text is a query in any dialect of SQL, as a program: read it from standard input.

    python -P -m odf_workers.jobs.transform.sql_grammar < query

It exits with `A_QUERY`, or with `NO_QUERY` if no parser takes the text. The parsers are lenient, so
this is certain. It is a program because strangers write the text, and parsers may take long.
"""

from __future__ import annotations

import logging
import sys

A_QUERY, NO_QUERY = 0, 3
"""Exit codes. Any other one means that it is not known."""
DIALECTS = ("spark", "duckdb", "postgres", "snowflake", "bigquery", "clickhouse", "trino", "mysql")


def is_query(text: str) -> bool:
    """Return whether any parser takes the text for one query. Raises `RecursionError`."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    for dialect in DIALECTS:
        try:
            found = [each for each in sqlglot.parse(text, read=dialect) if each is not None]
        except SqlglotError:
            continue
        if any(isinstance(each, exp.Query) for each in found):
            return True
    return False


if __name__ == "__main__":
    sys.exit(A_QUERY if is_query(sys.stdin.read()) else NO_QUERY)
