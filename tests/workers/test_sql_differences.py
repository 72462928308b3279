"""The page that shows the same words of SQL on both engines says what the engines compute."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sql_differences import AGGREGATES, PAGE, beginning, computed, expressions

from odf_protocol.metadata.events import SqlQueryStep
from odf_workers.engines.datafusion.engine import DataFusionEngine
from odf_workers.engines.port.port import with_other_meaning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SOME = 12
"""How many of the expressions are tried that an engine refuses, each of which costs queries."""


@pytest.mark.spark
def test_the_page_says_what_the_engines_compute(spark: SparkSession, tmp_path: Path) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    rows = PAGE.read_text().splitlines()
    refused = [row for row in rows if "| refused |" in row]
    known = [e for e in expressions() if not any(r.startswith(beginning(e[1])) for r in refused)]
    others = random.Random(1).sample([e for e in expressions() if e not in known], SOME)
    given = sorted([*known, *others], key=lambda each: each[0] == AGGREGATES)
    for each in computed(SparkEngine(spark), DataFusionEngine(), tmp_path, given):
        assert each.row() in rows, "run make sql-differences"


def test_the_page_has_hundreds_of_expressions_each_once() -> None:
    given = [text for _, text in expressions()]
    assert len(set(given)) == len(given) >= 400


def words(text: str) -> list[str]:
    return with_other_meaning([SqlQueryStep(query=text)])


def test_a_query_is_told_its_words_that_mean_something_else_in_queries() -> None:
    query = "select n / 2, Concat (a, b), extract(dow from t), date_format(t, 'y') from x"
    assert words(query) == ["/", "concat", "date_format", "dow"]
    assert words("select 'a / b', `log`, logs(n), 1 -- concat(a)\n from x /* / */") == []


@pytest.mark.parametrize(
    "word",
    [
        *(
            "array_agg",
            "array_position",
            "array_remove",
            "array_sort",
            "atan2",
            "concat",
            "date_format",
            "log",
        ),
        *("from_unixtime", "initcap", "regexp_replace", "to_char", "dow", "second", "/"),
    ],
)
def test_each_such_word_has_another_value_on_the_page(word: str) -> None:
    differ = PAGE.read_text().split("## Refused")[0]
    assert any(word in words(line.split("|")[1].replace("`", "")) for line in differ.splitlines()
               if line.startswith("| `"))  # fmt: skip
