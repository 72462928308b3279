"""The list of datasets: searched, filtered, ordered, counted, and never of what is hidden."""

from __future__ import annotations

import itertools

import httpx
import pytest
import sqlalchemy as sa
from service import seeded, serving, ten_rows

from odf_node.service.auth.access import Action, grants
from odf_node.service.auth.actors import ANONYMOUS, Actor
from odf_node.service.auth.dataset_access import readable
from odf_node.service.setting_groups.words import AnonymousReads
from odf_protocol.metadata.events import SetInfo
from odf_storage.datasets.node.overviews import bring_up
from odf_storage.stores.ports.overviews import WantedOverviews
from odf_storage.stores.ports.values import Account, AccountId, Reach, Role, Scope, Visibility
from odf_storage.stores.registers.datasets.overviews import overviews
from odf_storage.stores.sql.engine import open_engine, sqlite_url, writing
from odf_storage.stores.wakeups.wakeups import Topic


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("list"), tenancy="multi") as service:
        chain = ten_rows()
        chain.add(SetInfo(description="Departures of New York", keywords=("aviation", "nyc")))
        service.keep(chain, "anna/flights")
        service.keep(seeded(), "anna/hidden", Visibility.PRIVATE)
        service.keep(seeded(), "bert/empty")
        while bring_up(service.node.stores):
            pass
        yield service


def aliases(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    content = answer.json()
    found = [one["alias"] for one in content["datasets"]]
    assert content["total"] == len(found)
    return found


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["anna/flights", "bert/empty"]),
        ({"search": "york DEPART"}, ["anna/flights"]),
        ({"search": "light"}, ["anna/flights"]),
        ({"search": "hidden"}, []),
        ({"search": "  "}, ["anna/flights", "bert/empty"]),
        ({"search": "%"}, []),
        ({"search": "' or 1=1 --"}, []),
        ({"kind": "Root", "account": "BERT"}, ["bert/empty"]),
        ({"kind": "derivative"}, []),
        ({"keyword": "Aviation"}, ["anna/flights"]),
        ({"keyword": "avi"}, []),
        ({"visibility": "private"}, []),
        ({"sort": "rows"}, ["anna/flights", "bert/empty"]),
        ({"sort": "bytes", "order": "asc"}, ["bert/empty", "anna/flights"]),
        ({"sort": "name", "order": "desc"}, ["bert/empty", "anna/flights"]),
    ],
    ids=str,
)
def test_what_is_asked_for_is_listed_and_counted(node, asked, expected):
    with node.http() as client:
        assert aliases(client.get("/datasets", params=asked)) == expected


def test_own_private_datasets_are_found_by_their_owner_alone(node):
    asked = {"search": "hidden", "visibility": "private"}
    for account, expected in (("anna", ["anna/hidden"]), ("bert", [])):
        with node.http(node.token(account)) as client:
            assert aliases(client.get("/datasets", params=asked)) == expected


@pytest.mark.parametrize("sort", ["name", "updated", "rows", "bytes"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_every_order_is_paged_by_its_cursor_and_total_counts_all_pages(node, sort, order):
    with node.http(node.token("anna")) as client:
        asked = {"sort": sort, "order": order}
        whole = aliases(client.get("/datasets", params=asked))
        seen, more = [], {}
        while more is not None:
            page = client.get("/datasets", params={**asked, **more, "limit": 1}).json()
            assert page["total"] == len(whole) == 3
            seen += [one["alias"] for one in page["datasets"]]
            more = None if page["next"] is None else {"after": page["next"]}
    assert seen == whole


def test_details_say_what_the_chain_says_as_of_its_head_right_away(node):
    chain = ten_rows()
    chain.add(SetInfo(description="just now", keywords=("new",)))
    node.keep(chain, "bert/fresh")
    with node.http() as client:
        asked = {"account": "bert", "details": True, "search": "fresh"}
        [told] = client.get("/datasets", params=asked).json()["datasets"]
    assert (told["records"], told["description"], told["keywords"]) == (10, "just now", ["new"])
    assert told["blocks"] == len(chain.blocks)
    node.node.stores.registry.forget(chain.id)


@pytest.mark.parametrize(
    "asked",
    [
        {"search": "x" * 10_000},
        {"search": " ".join("abcdefghijkl")},
        {"kind": "table"},
        {"visibility": "secret"},
        {"sort": "colour"},
        {"order": "up"},
        {"sort": "rows", "after": "nonsense"},
        {"sort": "rows", "after": f"{2**64}~a"},
        {"sort": "updated", "after": "yesterday~a"},
        {"limit": 0},
    ],
    ids=lambda asked: str(asked)[:40],
)
def test_what_cannot_be_asked_is_told(node, asked):
    with node.http() as client:
        answer = client.get("/datasets", params=asked)
    assert answer.status_code == 400
    assert answer.json()["detail"]


def test_a_search_gives_the_best_match_first_unless_another_order_is_asked_for(
    tmp_path,
):
    with serving(tmp_path, tenancy="multi") as service, service.http() as client:
        for name, text in (("anna/about", "All flights of a year"), ("bert/flights", "Departures")):
            chain = ten_rows()
            chain.add(SetInfo(description=text))
            service.keep(chain, name)
        while bring_up(service.node.stores):
            pass
        best = ["bert/flights", "anna/about"]
        assert aliases(client.get("/datasets?search=flights")) == best
        assert aliases(client.get("/datasets?search=flights&sort=name")) == best[::-1]
        assert aliases(client.get("/datasets")) == best[::-1]
        first = client.get("/datasets?search=flights&limit=1").json()
        after = {"search": "flights", "limit": 1, "after": first["next"]}
        second = client.get("/datasets", params=after).json()
        assert [one["alias"] for page in (first, second) for one in page["datasets"]] == best
        page = client.get("/?search=flights", headers={"accept": "text/html"}).text
        assert page.index("/bert/flights") < page.index("/anna/about")


def test_the_list_in_the_index_is_what_the_rules_of_access_let_each_actor_read(node):
    """The rules decide dataset by dataset, the index by one condition; both say the same."""
    stores = node.node.stores
    entries = stores.registry.page()
    chief = Account(AccountId("did:odf:chief"), "chief", is_admin=True)
    carl = Account(AccountId("did:odf:carl"), "Carl")
    anna = next(one for one in stores.accounts.page() if one.name == "anna")
    for account in (chief, carl):
        stores.accounts.put_account(account)
    shared = next(one for one in entries if str(one.alias) == "anna/hidden")
    stores.roles.put(shared.id, carl.id, Role.READER)
    scopes = (frozenset(), frozenset({Scope.READ}), frozenset({Scope.WRITE}))
    actors = [ANONYMOUS, Actor(reads=shared.id)]
    for account, reach, held in itertools.product((chief, carl, anna), Reach, scopes):
        roles = stores.roles.of_account(account.id)
        for entry in entries if reach is Reach.DATASET else (None,):
            dataset = None if entry is None else entry.id
            actors.append(Actor(account, held, reach=reach, dataset=dataset, roles=roles))
    for actor, reads in itertools.product(actors, AnonymousReads):
        allowed = {one.id for one in entries if Action.READ in grants(actor, one, reads)}
        wanted = WantedOverviews(readable=readable(actor, reads))
        listed = {one.entry.id for one in stores.overviews.page(wanted)}
        assert listed == allowed, (actor, reads)
        assert stores.overviews.count(wanted) == len(allowed)


def test_a_node_of_an_older_version_fills_its_overviews_by_itself(tmp_path):
    with serving(tmp_path) as service:
        chain = ten_rows()
        chain.add(SetInfo(description="kept since long ago"))
        service.keep(chain, "kamu/old")
    engine = open_engine(sqlite_url(tmp_path / "node.db"))
    with writing(engine) as db:
        db.execute(sa.delete(overviews))
    engine.dispose()
    with serving(tmp_path) as service, service.http() as client:
        stores = service.node.stores
        with stores.wake_up.listen(Topic.MOVED) as woken:
            while stores.overviews.due():
                woken.wait(0.05)
        assert aliases(client.get("/datasets?search=long")) == ["old"]
