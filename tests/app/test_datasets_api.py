"""Datasets over HTTP: made from manifests, listed, described, extended, read from the end."""

from __future__ import annotations

import json

import pytest
import yaml
from service import seeded, serving, ten_rows

from odf_storage.stores.ports.values import ObjectKey, ObjectKind, Scope, Visibility

SNAPSHOT = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {{kind: NdJson, schema: {{fields: [{{name: city, type: String}}]}}}}
      merge: {{kind: Append}}
    - {{kind: SetInfo, description: Cities}}
"""
EVENT = "kind: MetadataEvent\nversion: 1\ncontent: {content}\n"


def make(service, name, token=None, **params):
    with service.http(token or service.token()) as client:
        return client.post("/datasets", content=SNAPSHOT.format(name=name), params=params)


def test_a_manifest_becomes_a_dataset(single):
    answer = make(single, "cities", visibility="public")
    assert answer.status_code == 201
    made = answer.json()
    assert made["alias"] == "cities"
    assert made["url"] == answer.headers["location"] == f"{single.url}/cities"
    assert made["id"].startswith("did:odf:fed01")
    with single.http() as client:
        assert client.get("/cities/refs/head").text == made["head"]
        shown = client.get("/cities").json()
    assert shown["head"] == made["head"]
    assert (shown["blocks"], shown["records"], shown["pushSources"]) == (3, 0, ["default"])
    assert shown["description"] == "Cities"


def test_a_manifest_may_be_json(single):
    document = yaml.safe_load(SNAPSHOT.format(name="as-json"))
    with single.http(single.token()) as client:
        assert client.post("/datasets", json=document).status_code == 201


def test_a_name_is_given_once_whatever_its_case(single):
    assert make(single, "taken").status_code == 201
    again = make(single, "TAKEN")
    assert again.status_code == 409
    assert again.json()["type"].endswith("AliasTaken")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no document"),
        ("kind: [", ""),
        ("kind: MetadataEvent\nversion: 1\ncontent: {}", "DatasetSnapshot"),
        (SNAPSHOT.format(name="_"), "name"),
        (SNAPSHOT.format(name="a") + "---" + SNAPSHOT.format(name="b"), "one DatasetSnapshot"),
        (SNAPSHOT.format(name="a").replace("NdJson", "Pdf"), "$.content"),
        (SNAPSHOT.format(name="a").replace("Root", "Derivative"), "AddPushSource"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused_with_its_reason(single, text, said):
    with single.http(single.token()) as client:
        answer = client.post("/datasets", content=text)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in json.dumps(answer.json())


def test_a_manifest_above_the_limit_is_refused(tmp_path):
    with serving(tmp_path, max_manifest_bytes=100) as service:
        assert make(service, "large").status_code == 413


def test_an_account_creates_in_its_own_name_only(multi):
    alice = multi.token("alice")
    assert make(multi, "alice/made", alice).json()["alias"] == "alice/made"
    assert make(multi, "no-account", alice).json()["alias"] == "alice/no-account"
    assert make(multi, "bob/made", alice).status_code == 403
    assert make(multi, "x", multi.token("alice", Scope.WRITE)).status_code == 403
    with multi.http() as client:
        answer = client.post("/datasets", content=SNAPSHOT.format(name="alice/y"))
    assert (answer.status_code, answer.json()["message"]) == (401, "Unauthenticated")


def test_a_dataset_is_private_unless_said_otherwise(multi):
    alice = multi.token("alice")
    make(multi, "alice/secret", alice)
    make(multi, "alice/open", alice, visibility="public")
    assert make(multi, "alice/odd", alice, visibility="shared").status_code == 400
    with multi.http() as client:
        assert client.get("/alice/secret/refs/head").status_code == 404
        assert client.get("/alice/open/refs/head").status_code == 200


def test_inputs_nobody_may_see_do_not_exist(multi):
    multi.keep(seeded(), "alice/unseen", Visibility.PRIVATE)
    multi.keep(seeded(), "alice/seen")
    text = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: "{ref}", alias: i}}]
      transform: {{kind: Sql, engine: spark, query: select * from i}}
"""
    with multi.http(multi.token("bob")) as client:
        refused = client.post("/datasets", content=text.format(name="d1", ref="alice/unseen"))
        made = client.post("/datasets", content=text.format(name="d2", ref="alice/seen"))
    assert (refused.status_code, refused.json()["missing"]) == (400, ["alice/unseen"])
    assert made.status_code == 201


def test_datasets_are_listed_in_pages_and_only_visible_ones(tmp_path):
    with serving(tmp_path, tenancy="multi") as service:
        for number in range(5):
            service.keep(seeded(), f"alice/public-{number}")
            service.keep(seeded(), f"alice/private-{number}", Visibility.PRIVATE)
        service.keep(seeded(), "bob/public")
        with service.http() as client:
            found, after = [], None
            while True:
                params = {"limit": 2, **({"after": after} if after else {})}
                page = client.get("/datasets", params=params).json()
                assert len(page["datasets"]) <= 2
                found += [item["alias"] for item in page["datasets"]]
                after = page["next"]
                if after is None:
                    break
            assert found == [*(f"alice/public-{n}" for n in range(5)), "bob/public"]
            one = client.get("/datasets", params={"account": "bob"}).json()["datasets"]
            assert [item["alias"] for item in one] == ["bob/public"]
            assert client.get("/datasets?limit=0").status_code == 400
        with service.http(service.token("alice")) as client:
            assert len(client.get("/datasets").json()["datasets"]) == 11


def test_a_dataset_is_found_by_id(multi):
    chain, hidden = seeded(), seeded()
    multi.keep(chain, "carol/by-id")
    multi.keep(hidden, "carol/hidden", Visibility.PRIVATE)
    multi.token("carol")
    with multi.http() as client:
        shown = client.get(f"/datasets/{chain.id}").json()
        assert shown["datasetName"] == "by-id"
        assert shown["owner"]["accountName"] == "carol"
        assert shown["owner"]["accountId"].startswith("did:odf:")
        for unknown in (hidden.id, seeded().id, "did:odf:xyz", "name"):
            answer = client.get(f"/datasets/{unknown}")
            assert (answer.status_code, answer.json()["message"]) == (404, "Not Found")


def test_an_authored_event_is_appended(single):
    make(single, "authored")
    event = EVENT.format(content="{kind: SetInfo, description: Better}")
    with single.http(single.token()) as client:
        before = client.get("/authored/refs/head").text
        answer = client.post("/authored/metadata", content=event)
        assert answer.status_code == 200
        assert answer.json()["head"] == client.get("/authored/refs/head").text != before
        assert client.get("/authored").json()["description"] == "Better"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ("{kind: SetInfo, descriptoin: x}", 400),
        (f"{{kind: Seed, datasetId: '{seeded().id}', datasetKind: Root}}", 400),
        ("{kind: AddData}", 400),
        ("{kind: DisablePushSource, sourceName: nothing}", 400),
    ],
)
def test_an_event_that_may_not_be_appended_is_refused(single, content, status):
    single.keep(chain := seeded(), f"kamu/event-{abs(hash(content))}")
    alias = f"event-{abs(hash(content))}"
    with single.http(single.token()) as client:
        answer = client.post(f"/{alias}/metadata", content=EVENT.format(content=content))
        assert answer.status_code == status, answer.text
        assert client.get(f"/{alias}/refs/head").text == str(chain.head)


@pytest.fixture(scope="module")
def rows(multi):
    """Thirteen rows in two slices, cities c0 to c12."""
    chain = ten_rows().add_rows(3)
    multi.keep(chain, "alice/rows")
    return chain


def tail(service, **params):
    with service.http() as client:
        answer = client.get("/alice/rows/tail", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_tail_is_the_last_records_in_offset_order(multi, rows):
    answer = tail(multi, limit=5)
    assert answer["dataFormat"] == "JsonAoS"
    assert "schema" not in answer
    assert [row["offset"] for row in answer["data"]] == [8, 9, 10, 11, 12]
    assert answer["data"][-1] == {
        "offset": 12,
        "op": 0,
        "system_time": "2050-01-01T12:00:00Z",
        "event_time": "2050-01-01T12:00:00Z",
        "city": "c12",
        "population": 1200,
    }


def test_skipped_records_are_counted_from_the_end(multi, rows):
    assert [row["offset"] for row in tail(multi, skip=1, limit=2)["data"]] == [10, 11]
    assert [row["offset"] for row in tail(multi, skip=12)["data"]] == [0]
    assert tail(multi, skip=13)["data"] == []
    assert tail(multi, limit=0)["data"] == []
    assert len(tail(multi)["data"]) == 13


def test_the_tail_of_a_dataset_without_data_is_empty(multi):
    multi.keep(seeded(), "alice/empty")
    with multi.http() as client:
        assert client.get("/alice/empty/tail").json() == {"data": [], "dataFormat": "JsonAoS"}


def test_records_come_in_three_shapes(multi, rows):
    for name in ("JsonSoA", "json-soa", "jsonsoa"):
        answer = tail(multi, limit=2, dataFormat=name)
        assert answer["dataFormat"] == "JsonSoA"
        assert answer["data"]["city"] == ["c11", "c12"]
    answer = tail(multi, limit=1, dataFormat="json-aoa")
    assert answer["data"][0][0] == 12
    with multi.http() as client:
        assert client.get("/alice/rows/tail?dataFormat=xml").status_code == 400


def test_more_records_than_the_limit_are_refused(multi, rows):
    with multi.http() as client:
        answer = client.get("/alice/rows/tail?limit=10001")
    assert answer.status_code == 413
    assert answer.json()["limit"] == 10000


def test_a_damaged_slice_is_reported_by_name(multi):
    chain = ten_rows()
    entry = multi.keep(chain, "alice/broken")
    (name,) = [hash_ for kind, hash_ in chain.objects if kind is ObjectKind.DATA]
    multi.node.stores.objects.path(ObjectKey(entry.id, ObjectKind.DATA, name)).write_bytes(b"PAR?")
    with multi.http() as client:
        answer = client.get("/alice/broken/tail")
    assert answer.status_code == 500
    assert answer.json()["hash"] == str(name)


def test_the_schema_comes_in_five_formats(multi, rows):
    arrow = tail(multi, limit=1, schemaFormat="arrow-json")
    assert arrow["schemaFormat"] == "ArrowJson"
    assert arrow["schema"]["fields"][0] == {
        "name": "offset",
        "data_type": "Int64",
        "nullable": False,
        "dict_id": 0,
        "dict_is_ordered": False,
        "metadata": {},
    }
    types = {field["name"]: field["data_type"] for field in arrow["schema"]["fields"]}
    assert types["event_time"] == {"Timestamp": ["Millisecond", "UTC"]}
    assert types["city"] == "Utf8"
    odf = tail(multi, limit=1, schemaFormat="OdfJson")["schema"]
    assert odf["fields"][0] == {"name": "offset", "type": {"kind": "Int64"}}
    assert odf["fields"][4]["type"] == {"kind": "Option", "inner": {"kind": "String"}}
    assert yaml.safe_load(tail(multi, schemaFormat="odf-yaml")["schema"]) == odf
    parquet = tail(multi, schemaFormat="ParquetJson")["schema"]
    assert parquet["fields"][0] == {"name": "offset", "repetition": "REQUIRED", "type": "INT64"}
    assert parquet["fields"][3]["logicalType"] == "TIMESTAMP(MILLIS,true)"
    text = tail(multi, schemaFormat="parquet")["schema"]
    assert text.startswith("message arrow_schema {\n  REQUIRED INT64 offset;\n")
    assert "  OPTIONAL BYTE_ARRAY city (STRING);\n" in text
    assert text.endswith("}\n")


def test_aspects_of_the_metadata_are_asked_for_by_name(multi, rows):
    with multi.http() as client:
        seed = client.get("/alice/rows/metadata").json()
        assert seed == {"output": {"seed": {"datasetId": str(rows.id), "datasetKind": "Root"}}}
        asked = "Attachments,info,license,refs,schema,seed,vocab"
        output = client.get(f"/alice/rows/metadata?include={asked}").json()["output"]
        odf = client.get("/alice/rows/metadata?include=schema&schemaFormat=odfjson").json()
        assert client.get("/alice/rows/metadata?include=blocks").status_code == 400
        assert client.get("/alice/rows/metadata?what=1").status_code == 400
    assert output["info"] == {"description": "ten rows", "keywords": ["test"]}
    assert output["refs"] == [{"name": "head", "blockHash": str(rows.head)}]
    assert output["vocab"] == {
        "offsetColumn": "offset",
        "operationTypeColumn": "op",
        "systemTimeColumn": "system_time",
        "eventTimeColumn": "event_time",
    }
    assert output["schemaFormat"] == "ArrowJson"
    assert "attachments" not in output
    assert "license" not in output
    assert odf["output"]["schemaFormat"] == "OdfJson"


def test_two_authors_at_once_both_get_their_block(single):
    from concurrent.futures import ThreadPoolExecutor

    make(single, "busy")
    token = single.token()

    def write(number):
        event = EVENT.format(content=f"{{kind: SetInfo, description: 'v{number}'}}")
        with single.http(token) as client:
            return client.post("/busy/metadata", content=event).status_code

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, range(4))) == [200] * 4
    with single.http(token) as client:
        assert client.get("/busy").json()["blocks"] == 7
