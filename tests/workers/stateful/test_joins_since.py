"""From which time on rows of a join may meet others than before: what lies before is left out."""

from __future__ import annotations

import pytest

from odf_workers.engines.stateful.operators import (
    AsOfJoin,
    InputClock,
    IntervalJoin,
    JoinSide,
    Moment,
    Ranking,
    since,
)

SIDES = tuple(
    JoinSide(rows=lambda _: None, columns=(), matched=(), bucket=(), clock=InputClock(alias))
    for alias in "lr"
)
AS_OF = AsOfJoin(sides=SIDES, keys=(), outer=False)
INNER = IntervalJoin(sides=SIDES, keys=(), outer=False, lower=-2, upper=5)
OUTER = IntervalJoin(sides=SIDES, keys=(), outer=True, lower=-2, upper=5)
RANKING = Ranking(
    sides=SIDES[:1], limit=1, order=(), newest_first=False, visible=False, by_time=False
)


def at(left: int | None, right: int | None) -> Moment:
    return Moment(watermarks={"l": left, "r": right}, horizons={"l": None, "r": None})


@pytest.mark.parametrize(
    ("operator", "first", "prev", "new", "expected"),
    [
        (INNER, (70, None), at(50, 50), at(60, 60), 70),
        (INNER, (70, 71), at(50, 50), at(60, 60), 66),
        (INNER, (None, None), at(None, None), at(60, 60), None),
        # Left rows without partner are told once the right watermark is past their interval.
        (OUTER, (70, 71), at(50, 50), at(60, 60), 45),
        (OUTER, (30, None), at(50, 50), at(60, 60), 30),
        (OUTER, (70, 71), at(50, None), at(60, 60), None),
        (OUTER, (70, 71), at(None, None), at(60, None), 66),
        # Left rows wait until both watermarks have reached them.
        (AS_OF, (70, 71), at(50, 40), at(60, 60), 41),
        (AS_OF, (70, 30), at(50, 40), at(60, 60), 30),
        (AS_OF, (70, 71), at(50, None), at(60, 60), None),
        (RANKING, (70,), at(50, 50), at(60, 60), None),
    ],
)
def test_rows_before_all_changes_and_all_that_wakes_are_left_out(
    operator: AsOfJoin | IntervalJoin | Ranking,
    first: tuple[int | None, ...],
    prev: Moment,
    new: Moment,
    expected: int | None,
) -> None:
    assert since(operator, first, prev, new) == expected
