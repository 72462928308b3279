"""`FOR SYSTEM_TIME AS OF` is read as Spark's as-of join, and nothing else is touched."""

from __future__ import annotations

import pytest

from odf_workers.engines.port.port import InvalidQuery
from odf_workers.engines.stateful.plan import as_of_joins

TIMES = {"stocks.owned": "at", "h": "event_time"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "select 1 from t left join `stocks.owned` FOR SYSTEM_TIME AS OF t.`at` o on o.k = t.k",
            (
                "select 1 from t left ASOF JOIN `stocks.owned` o "
                "MATCH_CONDITION (t.`at` >= o.`at`) on o.k = t.k"
            ),
        ),
        (
            "select 1 from t join h for system_time\n as of t.event_time as x on x.k = t.k",
            (
                "select 1 from t ASOF JOIN h x "
                "MATCH_CONDITION (t.event_time >= x.`event_time`) on x.k = t.k"
            ),
        ),
    ],
)
def test_a_temporal_join_becomes_an_as_of_join(text: str, expected: str) -> None:
    assert as_of_joins(text, TIMES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "select 'join h for system_time as of t.x h on' as s from t",
        "select 1 from t -- join h for system_time as of t.x h on\n",
        "select 1 /* join h for system_time as of t.x h on */ from t",
        "select 1 from t join h on t.k = h.k",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert as_of_joins(text, TIMES) == text


def test_what_is_no_input_has_no_time() -> None:
    with pytest.raises(InvalidQuery, match="no input"):
        as_of_joins("select 1 from t join g for system_time as of t.x g on g.k = t.k", TIMES)
