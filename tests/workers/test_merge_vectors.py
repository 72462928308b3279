"""Every merge strategy gives the rows of the known answers, disputed ones as we want them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.codec.manifests import from_data
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.reading import MergeStrategy
from odf_node.protocol.source_options import RetractionRule
from odf_node.workers.merge.findings import judged
from odf_node.workers.merge.order import Order, sort_indices
from odf_node.workers.merge.table import MERGE, check_batch, merging_of
from odf_node.workers.slices.columns import POSITION, CannotMerge
from tests.workers import tables
from tests.workers.histories import history_of_rows


def texts_of(given: dict[str, Any]) -> set[str]:
    """Columns that hold text in either table; the format declares no types."""
    return {
        name
        for table in (given.get("prev"), given.get("new"))
        for row in (table["rows"] if table else ())
        for name, value in zip(table["columns"], row, strict=True)
        if isinstance(value, str)
    }


def table_of(table: dict[str, Any], texts: set[str], *, numbered: bool) -> pa.Table:
    types = {"op": pa.int32(), **dict.fromkeys(texts, pa.string())}
    columns = {
        name: pa.array([row[at] for row in table["rows"]], types.get(name, pa.int64()))
        for at, name in enumerate(table["columns"])
    }
    if numbered:
        columns[POSITION] = pa.array(range(len(table["rows"])), pa.int64())
    return pa.table(columns)


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in tables.cases("merge")])
def test_a_batch_merges_as_the_answer_says(case: dict[str, Any], tmp_path: Path) -> None:
    if "error" in case["expect"]:
        with pytest.raises(CannotMerge):
            check(case, tmp_path)
        return
    check(case, tmp_path)


def check(case: dict[str, Any], folder: Path) -> None:
    given = case["given"]
    strategy: MergeStrategy = from_data(given["strategy"], MergeStrategy)
    merging = merging_of(strategy, Vocab(event_time_column=given["vocab"]["event_time"]))
    texts, rule = texts_of(given), MERGE[type(strategy)]
    history, prev = None, None
    if given["prev"]:
        prev = table_of(given["prev"], texts, numbered=False)
        if rule.reads_history:
            history = history_of_rows([prev], strategy, merging, folder)
    if given["operation"] == "project":
        assert prev is not None
        assert history is not None
        table = history.take(history.standing(), prev.column_names)
    else:
        new = table_of(given["new"], texts, numbered=True)
        check_batch(strategy, merging, new.schema)
        merged = rule.merge(merging, new, history)
        judged(merged.findings, RetractionRule.WARN, lambda at: at + 1)
        order = Order(
            columns=rule.order(merging),
            event_time=merging.vocab.event_time_column,
            fallback=Instant(0),
        )
        table = merged.rows.take(sort_indices(merged.rows, order))
    expect = case["expect"]["table"]
    rows = tables.rows_of(table.select(expect["columns"]))
    wanted = expect["rows"]
    if case["expect"].get("ordered") is False:
        rows, wanted = sorted(rows, key=str), sorted(wanted, key=str)
    assert rows == wanted
    assert [n for n in table.column_names if not n.startswith("odf ")] == expect["columns"]
