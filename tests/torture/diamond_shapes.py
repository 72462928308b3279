"""The diamonds that are played, and what plain Python makes of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2024, 1, 1, tzinfo=UTC)
ROOT = {
    "kind": "AddPushSource",
    "sourceName": "default",
    "read": {
        "kind": "NdJson",
        "schema": {
            "fields": [
                {"name": "event_time", "type": "Timestamp"},
                {"name": "n", "type": "Int64"},
            ]
        },
    },
    "merge": {"kind": "Append"},
}
Values = dict[str, Any]
"""One row without the system's columns."""


@dataclass(frozen=True)
class Row:
    """One row of the root."""

    event_time: datetime
    n: int

    def posted(self) -> Values:
        return {"event_time": self.event_time.isoformat(), "n": self.n}


def row_of(n: int) -> Row:
    """Rows come in the order of their time, five minutes after each other."""
    return Row(START + timedelta(minutes=5 * n), n)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a derivative holds after everything went through."""

    rows: list[Values]
    split_by: str | None = None
    """Only rows with the same value of this column are in the order of `rows`."""


@dataclass(frozen=True, kw_only=True)
class Derivative:
    """A dataset, and the same in plain Python: from its inputs' rows and their watermark,
    in seconds."""

    inputs: Sequence[str]
    query: str
    make: Callable[[list[list[Values]], float], Expected]


@dataclass(frozen=True, kw_only=True)
class Diamond:
    """The four derivatives, inputs first."""

    engine: str
    derivatives: Mapping[str, Derivative]

    def transform(self, name: str) -> Values:
        """Its `SetTransform`."""
        one = self.derivatives[name]
        inputs = [{"datasetRef": name, "alias": name} for name in one.inputs]
        sql = {"kind": "Sql", "engine": self.engine, "query": one.query}
        return {"kind": "SetTransform", "inputs": inputs, "transform": sql}


def _tens(inputs: list[list[Values]], _watermark: float) -> Expected:
    (numbers,) = inputs
    return Expected(rows=[{**row, "value": row["n"] * 10, "side": "tens"} for row in numbers])


def _odds(inputs: list[list[Values]], _watermark: float) -> Expected:
    (numbers,) = inputs
    odd = [row for row in numbers if row["n"] % 2]
    return Expected(rows=[{**row, "value": row["n"], "side": "odds"} for row in odd])


def _union(inputs: list[list[Values]], _watermark: float) -> Expected:
    tens, odds = inputs
    return Expected(rows=tens + odds, split_by="side")


def _no_threes(inputs: list[list[Values]], _watermark: float) -> Expected:
    """Split as its input is: that is ordered per side only."""
    (both,) = inputs
    rows = [{**row, "value": row["value"] + 1} for row in both if row["n"] % 3]
    return Expected(rows=rows, split_by="side")


def _join(inputs: list[list[Values]], _watermark: float) -> Expected:
    tens, odds = inputs
    values = {row["n"]: row["value"] for row in odds}
    return Expected(
        rows=[
            {"event_time": t["event_time"], "n": t["n"], "ten": t["value"], "odd": values[t["n"]]}
            for t in tens
            if t["n"] in values
        ]
    )


def _hours(inputs: list[list[Values]], watermark: float) -> Expected:
    (both,) = inputs
    found: dict[datetime, list[Values]] = {}
    for row in both:
        found.setdefault(row["event_time"].replace(minute=0), []).append(row)
    return Expected(
        rows=[
            {
                "event_time": hour,
                "pairs": len(rows),
                "tens": sum(row["ten"] for row in rows),
                "newest": max(row["n"] for row in rows),
            }
            for hour, rows in sorted(found.items())
            if (hour + timedelta(hours=1)).timestamp() <= watermark
        ]
    )


TENS = Derivative(
    inputs=["numbers"],
    query="select op, event_time, n, n * 10 as value, 'tens' as side from numbers",
    make=_tens,
)
ODDS = Derivative(
    inputs=["numbers"],
    query="select op, event_time, n, n as value, 'odds' as side from numbers where n % 2 = 1",
    make=_odds,
)
ON_DATAFUSION = Diamond(
    engine="datafusion",
    derivatives={
        "tens": TENS,
        "odds": ODDS,
        "both": Derivative(
            inputs=["tens", "odds"],
            query="select op, event_time, n, value, side from tens "
            "union all select op, event_time, n, value, side from odds",
            make=_union,
        ),
        "last": Derivative(
            inputs=["both"],
            query="select op, event_time, n, value + 1 as value, side from both where n % 3 <> 0",
            make=_no_threes,
        ),
    },
)
"""Without state; quick."""
ON_SPARK = Diamond(
    engine="spark",
    derivatives={
        "tens": TENS,
        "odds": ODDS,
        "both": Derivative(
            inputs=["tens", "odds"],
            query="select t.event_time as event_time, t.n, t.value as ten, o.value as odd "
            "from tens t join odds o on t.n = o.n and t.event_time = o.event_time",
            make=_join,
        ),
        "last": Derivative(
            inputs=["both"],
            query="select date_trunc('HOUR', event_time) as event_time, count(*) as pairs, "
            "sum(ten) as tens, max(n) as newest from both "
            "group by date_trunc('HOUR', event_time)",
            make=_hours,
        ),
    },
)
"""A join and windows, whose state is in checkpoints."""
