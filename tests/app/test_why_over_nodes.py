"""Questions about rows whose inputs are on another node: the client goes on there, with the rights
of who asks, and believes no stranger more than the block allows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from servers import wait_until
from service import Service, serving
from static_files import answering, send
from tests.workers.derivatives import Working, add_rows, derivative, moment, node_of, root

import odf_node
from odf_node.cli.main import main
from odf_node.client.nodes.remotes import Repositories
from odf_node.client.proofs import provenance
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.stores.ports.following import Mirror
from odf_storage.stores.ports.values import Visibility
from odf_workers.jobs.transform.run import run_transform

DAY = "2024-01-0{}T00:00:00Z"
TENS = "select event_time, city, n * 10 as tens from cities where n % 2 = 1"
MORE = "select event_time, city, tens + 1 as more from tens"
Step = dict[str, Any]


@dataclass
class Two:
    """Node `first` has `cities` and computed `tens`. Node `second` pulls `tens`, has no `cities`,
    and computed `more`."""

    first: Service
    second: Service
    cities: Dataset
    tens: Dataset
    more: Dataset

    @property
    def there(self) -> str:
        """The address of `tens` where it was computed."""
        return f"{self.first.url}/kamu/tens/"

    @property
    def here(self) -> str:
        return f"{self.second.url}/kamu/tens/"

    def pull_from(self, url: str, *, token: bytes | None = None) -> None:
        """Have the second node say that it pulls `tens` from this address."""
        mirror = Mirror(dataset=self.tens.id, remote="odf+" + url, sealed_token=token)
        self.second.node.stores.mirrors.put(mirror)

    def why(self, name: str = "more", **asked: Any) -> Step:
        dataset = odf_node.open(f"{self.second.url}/kamu/{name}")
        return dict(dataset.why(1, **{"depth": "all", **asked})["step"])


def computed(service: Service, dataset: Dataset, scratch: Path) -> Dataset:
    stores = service.node.stores
    bench = node_of(stores, scratch)
    run_transform(stores, dataset, TransformPayload(), bench, now=moment(1000))
    stores.set_visibility(dataset.id, Visibility.PUBLIC)
    return dataset


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("nodes")
    first_scratch, second_scratch = folder / "one", folder / "two"
    for each in (first_scratch, second_scratch):
        each.mkdir()
    many: dict[str, Any] = {"poll_s": 0.05, "tenancy": "multi", "mirror_networks": ["127.0.0.0/8"]}
    with (
        serving(folder / "first", **many) as first,
        serving(folder / "second", **many) as second,
        Working(first, first_scratch),
        Working(second, second_scratch),
    ):
        stores = first.node.stores
        cities = root(stores, "cities")
        rows = [(DAY.format(1 + n % 3), "AB"[n % 2], n) for n in range(6)]
        add_rows(stores, cities, rows, first_scratch, at=10)
        stores.set_visibility(cities.id, Visibility.PUBLIC)
        made = computed(first, derivative(stores, "tens", [cities], TENS), first_scratch)
        tens = pulled(second, f"odf+{first.url}/kamu/tens")
        more = computed(
            second, derivative(second.node.stores, "more", [tens], MORE), second_scratch
        )
        yield Two(first, second, cities, made, more)


@pytest.fixture
def two(nodes: Two) -> Two:
    nodes.pull_from(nodes.there)
    return nodes


def pulled(service: Service, remote: str) -> Dataset:
    """The mirror of a remote dataset, filled."""
    content = {"name": "kamu/tens", "remote": remote}
    manifest = json.dumps({"kind": "DatasetMirror", "version": 1, "content": content})
    with service.http(service.token()) as http:
        made = http.post("/datasets?visibility=public", content=manifest)
        assert made.status_code in (200, 201, 202), made.text
        url = made.json()["jobUrl"]
        wait_until(lambda: http.get(url).json()["finishedAt"] is not None, "the first pull")
    return service.node.stores.dataset(DatasetRef(alias=DatasetAlias.parse("kamu/tens")))


def test_three_levels_over_two_nodes_end_at_the_post_though_one_lacks_the_root(two: Two) -> None:
    step = two.why()
    (middle,) = step["inputs"]
    (last,) = middle["inputs"]
    assert [each["row"]["values"] for each in (step, middle, last)] == [
        {"event_time": "2024-01-01T00:00:00Z", "city": "B", "more": 31},
        {"event_time": "2024-01-01T00:00:00Z", "city": "B", "tens": 30},
        {"event_time": "2024-01-01T00:00:00Z", "city": "B", "n": 3},
    ]
    assert [each["check"]["verdict"] for each in (step, middle, last)] == [
        "reproduced",
        "reproduced",
        "recorded",
    ]
    assert (middle["toldBy"], "toldBy" in step) == (two.there, False)
    assert middle["where"]["tens"]["columns"] == ["cities.n"]


def test_a_node_asked_alone_says_where_the_input_of_its_copy_may_be_had(two: Two) -> None:
    (middle,) = two.why(here=True)["inputs"]
    assert (middle["check"]["verdict"], middle["elsewhere"]) == ("unknown", two.there)
    assert middle["why"] == [
        {
            "dataset": str(two.cities.id),
            "alias": "",
            "unread": "it is not on this node, or you may not read it",
        }
    ]
    assert "inputs" not in middle


def test_a_copy_itself_is_explained_by_the_node_that_computed_it_with_the_columns_asked_for(
    two: Two,
) -> None:
    step = two.why("tens", depth=1, columns=["tens"])
    assert (step["toldBy"], list(step["where"]), "inputs" in step) == (two.there, ["tens"], False)
    assert step["why"][0]["rows"] == [{"start": 3, "end": 3, "role": "source"}]


def test_no_node_is_asked_for_more_steps_than_the_person_wants(two: Two) -> None:
    (middle,) = two.why(depth=2)["inputs"]
    assert (middle["toldBy"], "inputs" in middle) == (two.there, False)
    assert "inputs" not in two.why(depth=1)


def test_the_command_prints_one_tree_and_whose_word_it_is(two: Two) -> None:
    url = f"{two.second.url}/kamu/more"
    ran = CliRunner().invoke(main, ["why", url, "1", "--depth", "all"])
    assert ran.exit_code == 0, ran.output
    lines = [line.strip() for line in ran.output.splitlines()]
    assert f"told by {two.there}" in lines
    assert any(line.startswith("kamu/cities offset 3 (append)") for line in lines)
    ran = CliRunner().invoke(main, ["why", url, "1", "--depth", "all", "--here"])
    assert "told by" not in ran.output


def test_the_page_leads_to_the_node_that_knows_more(two: Two) -> None:
    with two.second.http() as http:
        page = http.get("/kamu/tens?why=1", headers={"accept": "text/html"}).text
    assert f'<a href="{two.there.rstrip("/")}?why=1" rel="noreferrer">' in page
    assert "which may know more" in page


def test_an_address_that_takes_a_token_is_told_only_to_those_who_maintain_the_copy(
    two: Two,
) -> None:
    two.pull_from(two.there, token=b"sealed")

    def told(token: str | None) -> bool:
        with two.second.http(token) as http:
            step = http.get("/kamu/tens/why?offset=1").json()["step"]
        return "elsewhere" in step

    assert [told(None), told(two.second.token("other")), told(two.second.token("kamu"))] == [
        False,
        False,
        True,
    ]


def test_the_other_node_answers_with_the_rights_that_the_person_has_there(
    two: Two, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither the token for the first node nor the rights of the node that pulls go along."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    stores = two.first.node.stores
    stores.set_visibility(two.cities.id, Visibility.PRIVATE)
    try:
        (middle,) = two.why()["inputs"]
        assert (middle["toldBy"], middle["check"]["verdict"]) == (two.there, "reproduced")
        assert (middle["why"][0]["count"], "rows" in middle["why"][0]) == (1, False)
        Repositories().add("first", two.first.url, two.first.token("kamu"))
        (middle,) = two.why()["inputs"]
        assert middle["why"][0]["rows"] == [{"start": 3, "end": 3, "role": "source"}]
    finally:
        stores.set_visibility(two.cities.id, Visibility.PUBLIC)


def test_a_node_that_hides_the_dataset_leaves_what_the_first_one_knows(two: Two) -> None:
    stores = two.first.node.stores
    stores.set_visibility(two.tens.id, Visibility.PRIVATE)
    try:
        (middle,) = two.why()["inputs"]
    finally:
        stores.set_visibility(two.tens.id, Visibility.PUBLIC)
    (note,) = middle["notes"]
    assert note.startswith(f"{two.there} did not tell: ")
    assert (middle["check"]["verdict"], "toldBy" in middle) == ("unknown", False)


def test_a_node_that_is_away_leaves_what_the_first_one_knows(two: Two) -> None:
    two.pull_from("http://127.0.0.1:1/kamu/tens/")
    (middle,) = two.why()["inputs"]
    assert "did not tell: no answer from http://127.0.0.1:1" in middle["notes"][0]


def test_nodes_that_name_each_other_in_a_circle_end_it(two: Two) -> None:
    """The second node names itself, by its own address and by a node before it."""
    two.pull_from(two.here)
    (middle,) = two.why()["inputs"]
    assert "did not tell: nodes that pull this dataset name each other" in middle["notes"][0]
    asked: list[str] = []

    def pretending(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        step = {**two.why("tens", here=True), "elsewhere": two.here}
        send(handler, 200, json.dumps({"at": step["block"]["hash"], "step": step}).encode())

    with answering(pretending) as before:
        two.pull_from(f"{before.url}/kamu/tens/")
        (middle,) = two.why()["inputs"]
    assert "name each other in a circle" in middle["notes"][0]
    assert len(asked) == 1


def test_the_questions_to_other_nodes_are_limited(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "QUESTIONS", 0)
    (middle,) = two.why()["inputs"]
    assert "0 questions were asked of other nodes, the limit" in middle["notes"][0]


def deep(step: Step) -> bytes:
    """An answer with steps below steps, as many as go into a megabyte."""
    head, tail = b'{"at":"x","step":', b"}"
    return head + b'{"inputs":[' * 80_000 + b"]}" * 80_000 + tail


def changed(step: Step, **parts: Step) -> bytes:
    new = {**step, **{name: {**step[name], **part} for name, part in parts.items()}}
    return json.dumps({"at": step["block"]["hash"], "step": new}).encode()


def with_rows(step: Step, **rows: Any) -> bytes:
    given = {**step["why"][0], "count": 1, **rows}
    return changed({**step, "why": [given], "check": {"verdict": "reproduced"}})


LIES: dict[str, tuple[Callable[[Step], bytes], str]] = {
    "of another row": (lambda step: changed(step, row={"offset": 2}), "about another row"),
    "of another dataset": (
        lambda step: changed(step, row={"dataset": "did:odf:" + "f" + "0" * 70}),
        "about another row",
    ),
    "of another block": (
        lambda step: changed(step, block={"hash": "f1620" + "0" * 64}),
        "about another block",
    ),
    "an input that the block has not": (
        lambda step: with_rows(step, dataset="did:odf:fed01" + "0" * 64),
        "no input of the block",
    ),
    "a step that no row asks for": (
        lambda step: with_rows({**step, "inputs": [step]}),
        "a row that it does not name",
    ),
    "another form": (lambda step: b'{"step": 1}', "no answer of the form"),
    "a list": (lambda step: b"[]", "no answer of the form"),
    "a page": (lambda step: b"<html>", "is a page"),
    "a deep answer": (deep, "no answer of the form"),
    "a long answer": (lambda step: b'"' + b" " * (2 << 20) + b'"', "more than this client takes"),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_does_not_fit_the_block_is_not_believed(two: Two, lie: str) -> None:
    made, reason = LIES[lie]
    step = two.why("tens", here=True)

    def lying(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 200, made(step))

    with answering(lying) as stranger:
        two.pull_from(f"{stranger.url}/kamu/tens/")
        (middle,) = two.why()["inputs"]
    assert reason in middle["notes"][0]
    assert (middle["check"]["verdict"], "toldBy" in middle) == ("unknown", False)


def test_the_row_and_its_block_stay_those_of_the_first_node_and_foreign_text_is_one_line(
    two: Two,
) -> None:
    """The other node invents values, and sends escape sequences to a terminal."""
    step = two.why("tens", here=True)

    def lying(handler: BaseHTTPRequestHandler) -> None:
        values = {"row": {"values": {"tens": 7}, "alias": "\x1b[31m"}}
        rows = [{"start": 0, "end": 0, "role": "group"}]
        given = [{**step["why"][0], "alias": "\x1b[2J", "count": 1, "rows": rows}]
        send(
            handler,
            200,
            changed({**step, "why": given, "check": {"verdict": "recorded"}}, **values),
        )

    with answering(lying) as stranger:
        two.pull_from(f"{stranger.url}/kamu/tens/")
        (middle,) = two.why()["inputs"]
        ran = CliRunner().invoke(main, ["why", f"{two.second.url}/kamu/more", "1", "--depth", "2"])
    assert (middle["row"]["values"]["tens"], middle["row"]["alias"]) == (30, "kamu/tens")
    assert "toldBy" in middle
    assert "\x1b" not in ran.output


def test_a_node_that_sends_in_drops_is_given_up(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "PATIENCE_S", 1.0)

    def dripping(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)

    with answering(dripping) as stranger:
        two.pull_from(f"{stranger.url}/kamu/tens/")
        (middle,) = two.why()["inputs"]
    assert "did not tell" in middle["notes"][0]


def test_a_public_node_has_nobody_ask_within_his_own_network(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "reachable", lambda *_: ["198.51.100.1"])  # as if it were one
    asked: list[str] = []

    def told(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        send(handler, 200, b"{}")

    with answering(told) as inside:
        two.pull_from(f"{inside.url}/kamu/tens/")
        (middle,) = two.why()["inputs"]
    assert "it is not on the public network" in middle["notes"][0]
    assert asked == []
