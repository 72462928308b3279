"""What the list of jobs says of a result."""

from __future__ import annotations

import pytest

from odf_node.service.pages.frame.render import result_text


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"outcome": "updated", "rowsRead": 26115, "rowsKnown": 0}, "updated · rows read 26,115"),
        ({"outcome": "up-to-date", "reason": "no schema", "size": None}, "up-to-date: no schema"),
        ({"problems": 2, "isBad": True, "head": "f1620"}, "problems 2"),
        ({"outcome": "two\nlines" + "!" * 500}, "two lines" + "!" * 290 + "…"),
        ({}, ""),
    ],
)
def test_a_result_is_told_by_outcome_and_counts(result, said):
    assert result_text(result) == said
