"""Templates expand once, to their first value, and say what is wrong with them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import perhaps_refusing, refusing
from tests.workers import tables

from odf_workers.fetch.values import expand

OURS = {"${{ env.a }}": "${{ env.b }}"}
"""Where the known answer is disputed: values are not expanded again."""


@pytest.mark.parametrize("case", tables.cases("template"), ids=lambda case: case["id"])
def test_a_template_becomes_what_the_answer_says(case: dict[str, Any]) -> None:
    text, variables = case["given"]["text"], case["given"]["env"]
    if "error" in case["expect"]:
        error = case["expect"]["error"]
        with refusing(error["kind"]) as caught:
            expand(text, variables)
        assert caught.value.facts.get("detail") == error.get("detail")
    elif "disputed" in case:
        assert expand(text, variables) == OURS[text]
    else:
        assert expand(text, variables) == case["expect"]["value"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${{ 'a || b' }}", "a || b"),
        ("${{ env.none || 'x||y' || 'z' }}", "x||y"),
        ("${{env.a}}${{ env.a }}", "11"),
        ("${{ -1.50 }}", "-1.50"),
        ("${{ ' padded ' }}", "padded"),
        ("${{ env.a", "${{ env.a"),
        ("$${{ 7 }}$", "$7$"),
    ],
)
def test_quotes_and_numbers_are_respected(text: str, value: str) -> None:
    assert expand(text, {"a": "1"}) == value


@pytest.mark.parametrize("inner", ["", "env.", "'a", "a'b'", "1.", "|| 1", "env.a |", "env.a.b"])
def test_what_is_no_token_is_refused(inner: str) -> None:
    with refusing("InvalidPattern"):
        expand(f"${{{{ {inner} }}}}", {"a": "1"})


def test_every_token_is_parsed_before_any_is_looked_up() -> None:
    with refusing("InvalidPattern", match="nope"):
        expand("${{ env.a || nope }}", {"a": "1"})


def test_a_template_without_a_value_names_what_was_asked_for() -> None:
    with refusing("ValueNotFound") as caught:
        expand("x=${{ env.a || env.b }}", {})
    assert caught.value.facts == {"detail": "env.a || env.b"}


def test_values_are_not_read_as_templates() -> None:
    assert expand("${{ env.a }}", {"a": "${{ env.secret }}", "secret": "s"}) == "${{ env.secret }}"


def test_a_value_may_be_a_part_of_an_address_that_it_does_not_cut() -> None:
    text = "https://x.test/${{ env.part }}?a=1"
    assert expand(text, {"part": "a%23?b=c&d"}, is_address=True) == "https://x.test/a%23?b=c&d?a=1"
    with refusing("MalformedSource", match="%23") as caught:
        expand(text, {"part": "secret#rest"}, is_address=True)
    assert "secret" not in str(caught.value)


def test_an_endless_expansion_is_refused() -> None:
    with refusing("ExpansionTooLong"):
        expand("${{ env.a }}" * 2_000, {"a": "x" * 1_000})


def test_long_hostile_text_is_answered_quickly() -> None:
    began = time.process_time()
    for text in ("${{" * 20_000, "${{ " + "'|" * 20_000 + " }}", "${{" + "||" * 20_000 + "}}"):
        with perhaps_refusing("InvalidPattern", "ValueNotFound"):
            expand(text, {})
    assert time.process_time() - began < 5


@given(st.text())
def test_text_without_a_dollar_stays_as_it_is(text: str) -> None:
    plain = text.replace("$", "")
    assert expand(plain, {}) == plain
