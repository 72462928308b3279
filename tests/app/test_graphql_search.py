"""The search of the reference node's command, which is all that `POST /graphql` answers."""

from __future__ import annotations

import httpx
import pytest
from service import seeded, serving, ten_rows

from odf_node.service.datasets.graphql_routes import MAX_BODY_BYTES
from odf_storage.stores.ports.values import Visibility

SEARCH = """query Search($query: String!, $perPage: Int!) {
  search { query(query: $query, perPage: $perPage) { nodes {
    __typename
    ... on Dataset {
      id name owner { accountName } kind
      metadata { chain { blocks(page: 0, perPage: 1) { totalCount } } }
      data { numRecordsTotal estimatedSizeBytes }
    } } } }
}"""
LITERAL = "{search {query(query: %s, perPage: 10) {nodes {... on Dataset {name}}}}}"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("graphql"), tenancy="multi") as service:
        service.keep(ten_rows(), "anna/flights")
        service.keep(seeded(), "anna/flights.hidden", Visibility.PRIVATE)
        service.keep(seeded(), "bert/flights.empty")
        yield service


def search(client: httpx.Client, words: str, per_page: int = 10) -> list[dict]:
    variables = {"query": words, "perPage": per_page}
    answer = client.post("/graphql", json={"query": SEARCH, "variables": variables})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    nodes = answer.json()["data"]["search"]["query"]["nodes"]
    assert isinstance(nodes, list)
    return nodes


def test_the_search_of_the_reference_gets_what_it_shows(node):
    with node.http() as client:
        first, second = search(client, "flights")
        listed = client.get("/datasets", params={"search": "flights", "details": True}).json()
    known = listed["datasets"][0]
    assert first == {
        "__typename": "Dataset",
        "id": known["id"],
        "name": "flights",
        "owner": {"accountName": "anna"},
        "kind": "ROOT",
        "metadata": {"chain": {"blocks": {"totalCount": known["blocks"]}}},
        "data": {"numRecordsTotal": 10, "estimatedSizeBytes": known["dataSize"]},
    }
    assert second["name"] == "flights.empty"


def test_it_finds_what_the_caller_may_read_and_no_more_than_asked_for(node):
    names = ["flights", "flights.empty", "flights.hidden"]
    with node.http() as nobody, node.http(node.token("anna")) as anna:
        assert [one["name"] for one in search(nobody, "FLIGHTS")] == names[:2]
        assert sorted(one["name"] for one in search(anna, "flights")) == names
        assert [one["name"] for one in search(nobody, "flights", 1)] == ["flights"]
        assert len(search(nobody, "flights", 0)) == 1
        assert search(nobody, "no such words") == []
        told = nobody.post("/graphql", json={"query": LITERAL % '"flight"'}).json()
        assert [one["name"] for one in told["data"]["search"]["query"]["nodes"]] == names[:2]


def test_the_single_tenant_owns_what_is_found(tmp_path):
    with serving(tmp_path) as service, service.http() as client:
        service.keep(ten_rows())
        (found,) = search(client, "foo")
    assert (found["name"], found["owner"]) == ("foo", {"accountName": "kamu"})


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("{auth {enabledProviders}}", "auth"),
        ("{__schema {types {name}}}", "introspection"),
        ("mutation {auth {login}}", "mutation"),
        ("{search {query {nodes {__typename}}}}", "query"),
        ("{search {query(query: 7) {nodes {__typename}}}}", "7"),
        (LITERAL % ('"' + "w" * 201 + '"'), "characters"),
        (
            ("{search {a: query(query: \"a\") {nodes {__typename}} "
            "b: query(query: \"b\") {nodes {__typename}}}}"),
            "one search",
        ),
        ("{" * 199, "Syntax"),
        ("{search(a: " + "[" * 190, "Syntax"),
        ("query(" + "$a: [" * 60, "Syntax"),
        ("{search {query(query: " + "[" * 90 + "]" * 90 + ") {nodes {__typename}}}}", "String"),
        ("{a " * 1_000, "tokens"),
        ("", "Syntax"),
        (("query A {search {query(query: \"a\") {nodes {__typename}}}} "
         "query B {search {query(query: \"a\") {nodes {__typename}}}}"), "operation"),
    ],
)  # fmt: skip
def test_any_other_query_gets_an_error_in_the_form_of_graphql(node, document, told):
    with node.http() as client:
        answer = client.post("/graphql", json={"query": document})
    assert answer.status_code == 200, answer.text
    content = answer.json()
    assert content.get("data") is None
    assert told in " ".join(error["message"] for error in content["errors"])


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"query": 7}', b'{"query": "\xff"}'])
def test_a_body_that_is_no_request_is_malformed(node, body):
    with node.http() as client:
        assert client.post("/graphql", content=body).status_code == 400
        assert client.post("/graphql", content=b" " * (MAX_BODY_BYTES + 1)).status_code == 413


def test_a_bad_token_is_refused(node):
    with node.http("ka_nonsense") as client:
        assert client.post("/graphql", json={"query": LITERAL % '"a"'}).status_code == 401
