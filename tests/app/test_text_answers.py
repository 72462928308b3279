"""Parsers that are not linear run in readers, within seconds, once for each text."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest
from anyio import to_thread
from service import Service, serving, ten_rows

from odf_node.service.limits.texts import MARKDOWN_CHARS
from odf_node.service.lineage.lineage_columns import column_origins
from odf_node.service.readers.pool import TextAnswers
from odf_node.service.readers.tasks import ColumnsTask, MarkdownTask
from odf_protocol.metadata.events import SqlQueryStep, TransformSql


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("answers")) as service:
        service.keep(ten_rows(), "kamu/city")
        yield service


def answered(service: Service, *tasks: Any) -> list[Any]:
    """The answers as a thread of a request gets them, from readers of a loop of our own."""
    import anyio

    async def ask() -> list[Any]:
        texts = TextAnswers(type(service.node.readers)(service.node.settings))
        return [await to_thread.run_sync(texts.answer, task, "somebody") for task in tasks]

    return anyio.run(ask)


def columns(sql: str) -> ColumnsTask:
    return ColumnsTask(engine="spark", queries=[(None, sql)], inputs={"a": ["n", "t"]})


def test_columns_and_markdown_are_answered_and_what_has_no_answer_is_none(service: Service):
    found = answered(
        service,
        columns("select n + 1 as m from a"),
        columns("select from where"),
        MarkdownTask(text="# One\n\n<b>two</b>"),
        MarkdownTask(text="x" * (MARKDOWN_CHARS + 1)),
    )
    assert found == [
        {"m": ["computed", [["a", "n"]], "a.n + 1"]},
        None,
        "<h3>One</h3>\n<p>&lt;b&gt;two&lt;/b&gt;</p>\n",
        None,
    ]


def test_a_text_that_takes_too_long_has_no_answer_and_is_not_tried_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
):
    tried: list[Any] = []
    computed = TextAnswers._computed

    async def counted(self: TextAnswers, task: Any, caller: str) -> bytes:
        tried.append(task)
        return await computed(self, task, caller)

    monkeypatch.setattr(TextAnswers, "_computed", counted)
    hostile = MarkdownTask(text="![" * (MARKDOWN_CHARS // 2))
    first, *again = answered(service, hostile, *[hostile] * 20)
    assert again == [first] * 20
    assert tried == [hostile]


@pytest.mark.parametrize("count", [50, 400])  # the few say soon what takes minutes with the many
def test_columns_of_a_query_cost_the_same_each(count: int):
    """The query was parsed and qualified again for each of them."""

    def spent(number: int) -> float:
        listed = ", ".join(f"n + {each} as c{each}" for each in range(number))
        steps = (SqlQueryStep(query=f"select t, {listed} from a"),)
        gc.collect()
        gc.disable()  # collections look at all objects of the process again and again
        began = time.thread_time()
        found = column_origins(TransformSql(engine="spark", queries=steps), {"a": ["n", "t"]})
        assert found is not None
        assert len(found) == number + 1
        took = time.thread_time() - began
        gc.enable()
        return took

    spent(10)
    short, long = spent(count), spent(4 * count)
    for _ in range(3):  # of both the shortest time counts: neighbours on the machine lengthen some
        if long < 2.5**2 * short:
            break
        short, long = min(short, spent(count)), min(long, spent(4 * count))
    assert long < 2.5**2 * short


def test_answers_that_are_kept_have_a_limit(service: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("odf_node.service.readers.pool.KEPT", 3)
    texts = TextAnswers(service.node.readers)
    for number in range(10):
        texts._keep(bytes([number]), b"null")
    assert len(texts._kept) == 3
    assert texts._bytes == 12
