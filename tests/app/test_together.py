"""Questions that come while a call is under way share the next one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from threading import get_ident

import pytest
from service import Service, seeded

from odf_node.service.ingest.asked import IngestRequest
from odf_node.service.ingest.content import Post, Posted, Whole
from odf_node.service.ingest.posts import KEPT_S, Destinations, Posts
from odf_node.service.limits.shares import Coalescer
from odf_node.service.wiring import Node
from odf_protocol.errors import code_of
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_storage.runtime.logs import current_facts, part_of
from odf_storage.stores.index.sql import Heads
from odf_storage.stores.ports.values import Job


class Calls:
    """A function that waits until it may go on, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.may_go = threading.Event()
        self.facts: list[object] = []

    def __call__(self, questions: Sequence[int]) -> list[int | Exception]:
        self.asked.append(list(questions))
        self.facts.append(dict(current_facts()))
        self.may_go.wait(90)
        return [ValueError("odd") if each % 2 else each * 10 for each in questions]


async def asked_of(calls: Calls, *questions: int, at_once: int = 1, most: int = 64) -> list[object]:
    coalescer: Coalescer[int, int] = Coalescer(calls, at_once=at_once, most=most)
    answers = [asyncio.create_task(coalescer.ask(questions[0]))]
    while not calls.asked:
        await asyncio.sleep(0.001)
    answers += [asyncio.create_task(coalescer.ask(each)) for each in questions[1:]]
    await asyncio.sleep(0)
    calls.may_go.set()
    return list(await asyncio.gather(*answers, return_exceptions=True))


def test_who_asks_while_a_call_is_under_way_shares_the_next_one() -> None:
    calls = Calls()
    answers = asyncio.run(asked_of(calls, 2, 4, 6, 8))
    assert answers == [20, 40, 60, 80]
    assert calls.asked == [[2], [4, 6, 8]]


def test_who_asks_at_the_moment_a_call_ends_is_answered() -> None:
    calls = Calls()
    calls.may_go.set()

    async def in_turn() -> list[int]:
        coalescer: Coalescer[int, int] = Coalescer(calls, at_once=1)
        return [await coalescer.ask(each) for each in (2, 4, 6)]

    async def soon() -> list[int]:
        return await asyncio.wait_for(in_turn(), 60)

    assert asyncio.run(soon()) == [20, 40, 60]


def test_a_call_takes_no_more_questions_than_it_may() -> None:
    calls = Calls()
    assert asyncio.run(asked_of(calls, 2, 4, 6, 8, most=2)) == [20, 40, 60, 80]
    assert calls.asked == [[2], [4, 6], [8]]


def test_an_error_is_that_of_one_question() -> None:
    first, second, third = asyncio.run(asked_of(Calls(), 2, 3, 4))
    assert (first, third) == (20, 40)
    assert isinstance(second, ValueError)


def test_a_call_that_fails_fails_for_all_who_share_it_and_no_others() -> None:
    asked: list[list[int]] = []

    def fails_once(questions: Sequence[int]) -> list[int | Exception]:
        asked.append(list(questions))
        if len(asked) == 1:
            raise OSError("away")
        return list(questions)

    async def both() -> tuple[object, int]:
        coalescer: Coalescer[int, int] = Coalescer(fails_once)
        first = await asyncio.gather(coalescer.ask(1), return_exceptions=True)
        return first[0], await coalescer.ask(2)

    first, second = asyncio.run(both())
    assert isinstance(first, OSError)
    assert second == 2


def test_who_left_is_missed_by_nobody() -> None:
    calls = Calls()

    async def left() -> int:
        coalescer: Coalescer[int, int] = Coalescer(calls, at_once=1)
        gone = asyncio.create_task(coalescer.ask(2))
        while not calls.asked:
            await asyncio.sleep(0.001)
        stays = asyncio.create_task(coalescer.ask(4))
        gone.cancel()
        calls.may_go.set()
        return await stays

    assert asyncio.run(left()) == 40


def test_a_call_is_a_part_of_nobodys_work() -> None:
    calls = Calls()
    calls.may_go.set()

    async def ask() -> None:
        with part_of("00-" + "1" * 32 + "-" + "2" * 16 + "-01", actor="kamu"):
            await Coalescer(calls).ask(2)

    asyncio.run(ask())
    assert calls.facts == [{}]


@pytest.fixture
def service(tmp_path):
    from service import serving

    with serving(tmp_path, tenancy="single") as running:
        yield running


def test_posts_that_come_together_are_let_in_and_refused_one_by_one(service) -> None:
    from tests.app.test_ingest_api import with_sources

    service.keep(with_sources("default"), "kamu/open")
    service.keep(with_sources("s1", "s2"), "kamu/two")
    owner = service.node.callers.identify(service.token())
    nobody = service.node.callers.identify(None)

    def to(name: str, actor: object = owner, media_type: str | None = "text/csv") -> Post:
        return post_to(name, actor, media_type)

    with part_of("00-" + "1" * 32 + "-" + "2" * 16 + "-01"):
        posts = [to("open"), to("none"), to("two"), to("open", nobody), to("open", owner, "a/b")]
    posts.append(to("open"))
    first, none, two, stranger, other, last = service.node.posts.take(posts)
    told = [code_of(each) for each in (none, stranger, other)]
    assert told == ["DatasetHidden", "ActionForbidden", "UnsupportedMediaType"]
    assert two.code == "SourceNotUsable"
    jobs: list[Job] = []
    for each in (first, last):
        assert isinstance(each, Posted)
        jobs.append(service.node.stores.jobs.get(each.job))
    assert jobs[0].id < jobs[1].id
    assert (jobs[0].spec.trace or "")[3:35] == "1" * 32
    assert jobs[1].spec.trace is None


def post_to(name: str, actor: object, media_type: str | None = "text/csv") -> Post:
    return Post(
        actor=actor,
        dataset=DatasetAlias.parse(f"kamu/{name}"),
        request=IngestRequest(),
        open=partial(Whole, b"n\n1\n", media_type),
    )


def small_post(service: Service, name: str) -> Post:
    return post_to(name, service.node.callers.identify(service.token()))


def test_a_source_is_not_looked_for_again_within_some_seconds(service) -> None:
    from tests.app.test_ingest_api import with_sources

    now = [0.0]
    posts = posts_at(service.node, lambda: now[0])
    service.keep(with_sources("default"), "kamu/open")
    post = small_post(service, "open")
    looks: list[object] = []
    heads, here = Heads.head, get_ident()

    def head(self: Heads, dataset: DatasetId, *more: str) -> object:
        if get_ident() == here:  # the service follows heads in threads of its own
            looks.append(dataset)
        return heads(self, dataset, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Heads, "head", head)
        for now[0] in (0.0, 0.9 * KEPT_S, 1.1 * KEPT_S):
            assert isinstance(posts.take([post])[0], Posted)
    assert len(looks) == 2


def test_a_source_added_after_a_refusal_is_found_at_once(service) -> None:
    from tests.app.test_ingest_api import SOURCE

    posts = posts_at(service.node, lambda: 0.0)
    service.keep(seeded(), "kamu/open")
    post = small_post(service, "open")
    assert posts.take([post])[0].code == "SourceNotUsable"
    with service.http(service.token()) as client:
        added = client.post("/open/metadata", content=SOURCE.format(name="default"))
    assert added.status_code == 200, added.text
    assert isinstance(posts.take([post])[0], Posted)


def posts_at(node: Node, now: Callable[[], float]) -> Posts:
    return replace(node.posts, destinations=Destinations(node.access, now=now))
