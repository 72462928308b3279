"""Messages of engines: a sentence for the author of the query first, then the engine's words.

The messages are those of DataFusion 54.1.0 and Spark 3.5, recorded from refused derivatives.
"""

from __future__ import annotations

import pytest

from odf_workers.engines.port.refusals import in_plain_words

TABLES = {"flights": ["offset", "event_time", "dest"], "planes": ["event_time", "Tail Num"]}
TWICE = (
    "names a column `event_time` that is not the only one of this name: say whose it is, "
    "of `flights` or `planes`."
)
SPARK = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name "


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "Schema error: No field named dst. Valid fields are flights.dest, planes.x.",
            "names a column `dst` that is not there: did you mean `dest` of `flights`?",
        ),
        (
            f"{SPARK}`f`.`Dest` cannot be resolved. Did you mean one of the following? [`dest`].",
            "names a column `f.Dest` that is not there: did you mean `dest` of `flights`?",
        ),
        (
            f"{SPARK}`planes`.`dest` cannot be resolved. Did you mean one of the following?",
            "names a column `planes.dest` that is not there; `planes` has event_time, Tail Num.",
        ),
        (
            'Schema error: No field named "tail num". Valid fields are planes."Tail Num".',
            "names a column `tail num` that is not there: did you mean `Tail Num` of `planes`?",
        ),
        (
            "Error during planning: table 'datafusion.public.flihgts' not found",
            "reads `flihgts`, which is none of its inputs: did you mean `flights`?",
        ),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `trains` cannot be found. Verify",
            "reads `trains`, which is none of its inputs: `flights`, `planes`.",
        ),
        (
            "[AMBIGUOUS_REFERENCE] Reference `event_time` is ambiguous, could be: [`flights`]",
            TWICE,
        ),
        (
            "Schema error: Ambiguous reference to unqualified field event_time",
            TWICE,
        ),
        (
            "Error during planning: Invalid function 'foo'.\nDid you mean 'row'?",
            "calls foo, which is no function of the engine.",
        ),
        (
            "[PARSE_SYNTAX_ERROR] Syntax error at or near 'flights'",
            "is no SQL that the engine reads, from here on or shortly before.",
        ),
    ],
)
def test_what_is_wrong_in_which_dataset_is_told_before_the_words_of_the_engine(
    words: str, sentence: str
) -> None:
    place = "query 2 (`ranked`), line 3, column 14: "
    told = in_plain_words(place + words, "the query of kamu/daily", TABLES)
    assert told == f"{place}the query of kamu/daily {sentence} The engine says: {words}"


def test_hints_of_the_port_are_told_once_and_first() -> None:
    parsed = 'SQL error: ParserError("Expected: end of statement")'
    told = in_plain_words(f"{parsed}; `frm`: did you mean FROM?", "the query", TABLES)
    assert told.endswith(f"shortly before; `frm`: did you mean FROM? The engine says: {parsed}")
    field = "Schema error: No field named dst. Valid fields are flights.dest."
    assert in_plain_words(f"{field} Did you mean dest?", "the query", TABLES).endswith(field)


def test_messages_of_this_project_are_told_as_they_are() -> None:
    for words in ("the result has no event time: select a column `event_time`", "no query"):
        assert in_plain_words(words, "the query", TABLES) == words
