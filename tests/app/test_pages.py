"""Pages for people: what they show and to whom, what is escaped, who is signed in."""

from __future__ import annotations

import os
import re
from datetime import timedelta

import pytest
from service import seeded, serving, ten_rows

from odf_node.service.accounts.accounts import ensure_account, set_password
from odf_node.service.auth.visitors import local_path
from odf_node.service.pages.frame.cells import cell_text, column_lines, type_text
from odf_node.service.pages.frame.render import size_text
from odf_node.service.pages.guide.reference import words_of
from odf_protocol.codec.manifests import load_event
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import (
    AttachmentEmbedded,
    AttachmentsEmbedded,
    SetAttachments,
    SetInfo,
    SetLicense,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import poll_job
from odf_storage.datasets.verify.note import ValidationNote, write_note
from odf_storage.datasets.verify.pending import Unverified, write_unverified
from odf_storage.stores.ports.values import Failed, JobSpec, Succeeded, Visibility

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    settings = {"tenancy": "multi", "password_work": 2, "login_attempts": 3}
    settings["query_check_s"] = 0.01  # no worker is there to check any
    with serving(tmp_path_factory.mktemp("pages"), **settings) as service:
        node, accounts = service.node, service.node.stores.accounts
        anna = ensure_account(accounts, "anna", os.urandom)
        set_password(accounts, anna, "pwd_of_anna", os.urandom, node.clock(), node.passwords.cost)
        service.keep(ten_rows(), "anna/open")
        service.keep(ten_rows(), "anna/hidden", Visibility.PRIVATE)
        yield service


@pytest.fixture
def visitor(node):
    node.node.throttle._windows.clear()
    with node.http() as client:
        client.headers.update(HTML)
        yield client


def sign_in(visitor, **fields):
    return visitor.post("/v/sign-in", data=fields)


def test_the_front_page_lists_what_everybody_may_see(visitor):
    answer = visitor.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert 'href="/anna/open"' in answer.text
    assert "anna/hidden" not in answer.text


def test_the_page_of_a_dataset_shows_rows_blocks_files_and_how_to_take_it(visitor, node):
    shown = visitor.get("/anna/open").text
    head = visitor.get("/anna/open/refs/head").text
    assert f'data-head="{head}"' in shown
    assert f"odf-node pull odf+{node.url}/anna/open open/" in shown
    assert f'href="/anna/open?block={head}"' in shown
    assert "/anna/open/data/f1620" in shown
    assert shown.count("<td>2050-01-01T12:00:00Z</td>") >= 10
    assert shown.count("0 added") == 0


def test_whoever_may_post_is_shown_the_command_with_source_and_format(visitor, node):
    read = {"kind": "NdJson", "schema": {"fields": [{"name": "id", "type": "Int64"}]}}
    source = {"kind": "AddPushSource", "sourceName": "sensors", "read": read}
    content = {"name": "fed", "kind": "Root", "metadata": [source | {"merge": {"kind": "Append"}}]}
    manifest = {"kind": "DatasetSnapshot", "version": 1, "content": content}
    with node.http(node.token("anna")) as owner:
        made = owner.post("/datasets?visibility=public", json=manifest)
        assert made.status_code == 201, made.text
    assert "odf-node ingest" not in visitor.get("/anna/fed").text
    sign_in(visitor, login="anna", password="pwd_of_anna")
    command = f"odf-node ingest rows.ndjson {node.url}/anna/fed --source-name sensors"
    assert command in visitor.get("/anna/fed").text


def test_a_readme_is_rendered_and_leads_nowhere_harmful(visitor, node):
    text = (
        "# Ten rows\n\nSee **this** [page](https://example.org), not [this](javascript:alert(1))."
        "\n\n<img src=x onerror=alert(1)>\n\n![logo](https://evil.example/x.png)"
        "\n\n| a |\n|---|\n| 1 |"
    )
    chain = seeded()
    items = (AttachmentEmbedded(path="README.md", content=text),)
    chain.add(SetAttachments(attachments=AttachmentsEmbedded(items=items)))
    node.keep(chain, "anna/told")
    shown = visitor.get("/anna/told").text
    assert "<h3>Ten rows</h3>" in shown
    assert '<a href="https://example.org" rel="noopener nofollow ugc">page</a>' in shown
    assert "<table>" in shown
    assert "&lt;img src=x" in shown
    assert 'href="javascript' not in shown
    assert "<img" not in shown
    assert shown.index("Ten rows") < shown.index("Newest rows")


def test_lineage_is_drawn_with_links_and_hides_what_is_private(visitor, node):
    inputs = [{"datasetRef": f"anna/{name}", "alias": name} for name in ("open", "hidden")]
    transform = {"kind": "Sql", "engine": "datafusion", "query": "select 1 as one"}
    event = {"kind": "SetTransform", "inputs": inputs, "transform": transform}
    content = {"name": "made", "kind": "Derivative", "metadata": [event]}
    manifest = {"kind": "DatasetSnapshot", "version": 1, "content": content}
    with node.http(node.token("anna")) as owner:
        assert owner.post("/datasets?visibility=public", json=manifest).status_code == 201
    shown = visitor.get("/anna/made").text
    assert '<a href="/anna/open"><g class="box"' in shown
    assert "anna/hidden" not in shown
    assert "<title>a dataset that is not visible here</title>" in shown
    assert '<a href="/anna/made"><g class="box"' in visitor.get("/anna/open").text
    sign_in(visitor, login="anna", password="pwd_of_anna")
    assert '<a href="/anna/hidden"><g class="box"' in visitor.get("/anna/made").text


def test_what_was_checked_on_arrival_is_told_and_when_a_derivative_was_replayed(visitor, node):
    """Everything is hashed and compared before it becomes visible, unless a note says otherwise."""
    root = visitor.get("/anna/open").text
    assert re.search(r'<p class="good">Hashed and compared on arrival, the last block <time', root)
    assert "Replayed" not in root
    content = {
        "name": "replayed",
        "kind": "Derivative",
        "metadata": [
            {
                "kind": "SetTransform",
                "inputs": [{"datasetRef": "anna/open", "alias": "open"}],
                "transform": {"kind": "Sql", "engine": "datafusion", "query": "select 1 as one"},
            }
        ],
    }
    with node.http(node.token("anna")) as owner:
        manifest = {"kind": "DatasetSnapshot", "version": 1, "content": content}
        made = owner.post("/datasets?visibility=public", json=manifest)
        assert made.status_code == 201
        dataset = DatasetId.parse(made.json()["id"])
    assert "Replayed: never." in visitor.get("/anna/replayed").text
    objects = node.node.stores.objects
    write_note(
        objects,
        dataset,
        ValidationNote(
            ok=True,
            block="f1620" + "0" * 64,
            sequence_number=1,
            at="2050-01-01T12:00:00Z",
            replayed=2,
        ),
    )
    assert re.search(r"Replayed: <time[^>]*2050-01-01T12:00", visitor.get("/anna/replayed").text)
    write_unverified(objects, dataset, Unverified(after=None, upto=None, since="2050"))
    assert "on arrival" not in visitor.get("/anna/replayed").text


@pytest.mark.parametrize("ok", [True, False])
def test_the_last_verification_is_told_with_its_block_and_engines(visitor, node, ok):
    chain = ten_rows()
    entry = node.keep(chain, f"anna/verified-{ok}")
    note = ValidationNote(
        ok=ok,
        block=str(chain.blocks[-2].hash),
        sequence_number=2,
        at="2050-01-01T12:00:00Z",
        engines=("datafusion 54",),
        replayed=3,
        problems=0 if ok else 4,
    )
    write_note(node.node.stores.objects, entry.id, note)
    shown = visitor.get(f"/anna/verified-{ok}").text
    said = "An earlier head was verified:" if ok else "Verification found 4 problem(s) as of"
    assert said in shown
    assert f'href="/anna/verified-{ok}?block={note.block}"' in shown
    assert "3 execution(s) repeated by datafusion 54" in shown


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?block=nonsense", 400),
        (f"?block={Multihash.of(b'another')}", 404),
        (f"?history={Multihash.of(b'another')}", 404),
        ("?rows=many", 400),
        ("?rows=-1", 400),
        (f"?rows={10**30}", 400),
        ("?rows=1000000000", 200),
    ],
)
def test_addresses_of_nothing_below_a_dataset_are_told(visitor, query, status):
    answer = visitor.get(f"/anna/open{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "text/html; charset=utf-8",
    )


def test_a_page_of_rows_ends_with_the_oldest(visitor, node):
    node.keep(ten_rows().add_rows(140), "anna/long")
    first = visitor.get("/anna/long?rows=0").text
    assert first.count("<tr>") == 101
    assert 'href="/anna/long?rows=100" rel="next"' in first
    rest = visitor.get("/anna/long?rows=100").text
    assert rest.count("<tr>") == 51
    assert 'rel="next"' not in rest
    assert 'href="/anna/long?rows=0" rel="prev"' in rest


def test_a_long_history_is_shown_by_page(visitor, node):
    chain = seeded()
    for number in range(120):
        chain.add(SetInfo(description=f"number {number}"))
    node.keep(chain, "anna/told-often")
    first = visitor.get("/anna/told-often?history=").text
    assert first.count("<tr>") == 101
    older = f"/anna/told-often?history={chain.blocks[20].hash}"
    assert f'href="{older}"' in first
    assert visitor.get(older).text.count("<tr>") == 22


@pytest.mark.parametrize("url", ["https://example.org/by", "javascript:alert(1)"])
def test_a_license_leads_to_its_text_on_the_web_only(visitor, node, url):
    chain = seeded()
    chain.add(SetLicense(short_name="CC-BY", name="By", website_url=url))
    name = "linked" if url.startswith("https") else "unlinked"
    node.keep(chain, f"anna/{name}")
    shown = visitor.get(f"/anna/{name}").text
    assert (f'href="{url}"' in shown) == url.startswith("https")


def test_nested_columns_are_listed_with_their_members_and_cells_are_json():
    member = {"name": "city", "type": {"kind": "String"}}
    struct = {"kind": "Struct", "fields": [member]}
    listed = {"kind": "List", "itemType": struct}
    assert [path for path, _ in column_lines("at", {"kind": "Option", "inner": listed})] == [
        "at",
        "at[].city",
    ]
    assert cell_text({"a": [1, None], "b": "x"}) == '{"a":[1,null],"b":"x"}'


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html, application/json"])
def test_programs_are_answered_by_the_api_at_the_same_address(node, accept):
    with node.http() as client:
        answer = client.get("/anna/open", headers={"accept": accept})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["vary"].lower().startswith("accept")


@pytest.mark.parametrize("path", ["/datasets", "/openapi.json", "/system/health"])
def test_addresses_of_the_api_are_no_datasets_for_a_browser_either(visitor, path):
    assert visitor.get(path).status_code == 200
    assert "ODF Node" not in visitor.get("/datasets").text


def test_behind_a_proxy_every_link_keeps_the_path_the_proxy_adds(tmp_path):
    front = "https://front.example/odf/"
    with serving(tmp_path, public_url=front, allow_anonymous=False) as service:
        service.keep(ten_rows(), "open")
        with service.http() as client:
            client.headers.update(HTML)
            asked = client.get("/open", follow_redirects=False)
            assert asked.headers["location"] == "/odf/v/sign-in?next=/open"
            given = {"token": service.token(), "next": "/open"}
            origin = {"origin": "https://front.example"}
            signed = client.post("/v/sign-in", data=given, headers=origin)
            assert signed.headers["location"] == "/odf/open"
            assert "Path=/odf/; SameSite=strict; Secure" in signed.headers["set-cookie"]
            session = {"cookie": signed.headers["set-cookie"].partition(";")[0]}
            for path in ("/", "/open", "/docs", "/absent"):
                shown = client.get(path, headers=session).text
                links = re.findall(r'(?:href|src|action|data-dataset)="(/[^"]*)"', shown)
                assert len(links) > 3
                assert all(link.startswith("/odf/") for link in links), links
            bearer = {"authorization": f"Bearer {service.token()}"}
            for address in client.get("/schemas", headers=bearer).json().values():
                assert address.startswith(front)


def test_the_page_of_the_api_shows_every_operation_and_loads_nothing_foreign(visitor):
    shown = visitor.get("/docs").text
    document = visitor.get("/openapi.json").json()
    for path, item in document["paths"].items():
        for method in item.keys() & {"get", "head", "post", "put", "patch", "delete"}:
            assert f'<b class="method">{method.upper()}</b> <code>{path}</code>' in shown
    for link in re.findall(r'href="#([^"]+)"', shown):
        assert shown.count(f'id="{link}"') == 1
    assert "//cdn" not in shown


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": ["string", "null"]}, "string or null"),
        ({"type": "string", "format": "date-time"}, "date-time"),
        (
            {"type": "array", "items": {"$ref": "#/components/schemas/AuditEntry"}},
            "list of AuditEntry",
        ),
        ({"anyOf": [{"const": 1}, {"enum": ["a", "b"]}]}, "1 or a or b"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of integer"),
        ({}, ""),
    ],
    ids=str,
)
def test_types_of_the_api_are_said_in_words(schema, words):
    assert "".join(text for text, _ in words_of(schema)) == words


@pytest.mark.parametrize("name", ["hidden", "absent"])
def test_a_hidden_dataset_looks_like_an_absent_one(visitor, name):
    answer = visitor.get(f"/anna/{name}")
    assert answer.status_code == 404
    assert answer.text.replace(name, "NAME") == visitor.get("/anna/NAME").text


def test_what_strangers_write_is_shown_as_text(visitor, node):
    chain = seeded()
    evil = "<script>alert(1)</script>"
    document = AttachmentEmbedded(path=evil, content=evil)
    chain.add(SetInfo(description=evil, keywords=(evil,)))
    chain.add(SetAttachments(attachments=AttachmentsEmbedded(items=(document,))))
    node.keep(chain, "anna/evil")
    for path in ("/", "/anna/evil"):
        shown = visitor.get(path).text
        assert "&lt;script&gt;alert(1)" in shown
        assert evil not in shown


def test_nothing_foreign_may_be_loaded_and_nobody_may_frame_a_page(visitor):
    policy = visitor.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_a_password_lets_the_browser_see_what_is_private(visitor):
    answer = sign_in(visitor, login="anna", password="pwd_of_anna", next="/anna/hidden")
    assert (answer.status_code, answer.headers["location"]) == (303, "/anna/hidden")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "anna/hidden" in visitor.get("/anna/hidden").text
    assert 'href="/anna/hidden"' in visitor.get("/").text
    assert visitor.post("/v/sign-out").status_code == 303
    assert visitor.get("/anna/hidden").status_code == 404


def test_an_access_token_lets_the_browser_in_too(visitor, node):
    assert sign_in(visitor, token=node.token("anna")).status_code == 303
    assert visitor.get("/anna/hidden").status_code == 200


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"login": "anna", "password": "wrong"}, "Rejected credentials"),
        ({"token": "ka_wrong"}, "does not know the access token"),
        ({}, "Rejected credentials"),
    ],
)
def test_wrong_credentials_are_told_and_open_nothing(visitor, fields, said):
    answer = sign_in(visitor, **fields)
    assert answer.status_code == 401
    assert said in answer.text
    assert "set-cookie" not in answer.headers
    assert f'name="login" value="{fields.get("login", "")}"' in answer.text
    assert "wrong" not in answer.text


def test_guessing_is_slowed_down(visitor):
    statuses = [sign_in(visitor, login="anna", password="x").status_code for _ in range(4)]
    assert statuses == [401, 401, 401, 429]


def test_the_cookie_means_nothing_to_the_api(visitor):
    sign_in(visitor, login="anna", password="pwd_of_anna")
    plain = {"accept": "application/json"}
    assert visitor.get("/anna/hidden", headers=plain).status_code == 404
    assert visitor.post("/datasets", content=b"", headers=plain).status_code == 401


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null", ""])
def test_a_form_of_another_site_is_refused(visitor, origin):
    foreign = {"origin": origin}
    fields = {"login": "anna", "password": "pwd_of_anna"}
    for path in ("/v/sign-in", "/v/sign-out"):
        assert visitor.post(path, data=fields, headers=foreign).status_code == 403


@pytest.mark.parametrize("text", ["//evil.example", "https://evil.example", "/\\evil", "", "/\n"])
def test_signing_in_leads_nowhere_else(text):
    assert local_path(text) == "/"


def test_a_form_that_is_too_long_is_refused(visitor):
    assert sign_in(visitor, login="x" * 20_000).status_code == 413


@pytest.mark.parametrize("body", [b"nonsense", b"login=\xff", b"&".join([b"a=b"] * 50)])
def test_what_is_no_form_is_refused(visitor, body):
    form = {"content-type": "application/x-www-form-urlencoded"}
    refused = visitor.post("/v/sign-in", content=body, headers=form)
    assert refused.status_code == 400
    assert "form-encoded" in refused.text


def test_a_node_without_anonymous_access_asks_to_sign_in(tmp_path):
    with serving(tmp_path, allow_anonymous=False) as service, service.http() as client:
        service.keep(seeded(), "kamu/foo")
        client.headers.update(HTML)
        for path in ("/", "/foo"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["location"]) == (
                303,
                f"/v/sign-in?next={path}",
            )
        assert client.get("/v/sign-in").status_code == 200
        assert client.get("/v/style.css").headers["content-type"].startswith("text/css")
        assert sign_in(client, token=service.token()).status_code == 303
        assert client.get("/foo").status_code == 200


def test_pages_are_counted_by_their_pattern(visitor):
    visitor.get("/anna/open")
    counted = visitor.get("/system/metrics").text
    assert 'route="/{account}/{dataset}"' in counted
    assert 'route="/"' in counted


def test_sizes_and_types_are_said_in_words():
    assert [size_text(size) for size in (0, 1023, 1024, 1536, 5 << 30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "5.0 GiB",
    ]
    many = {"kind": "List", "itemType": {"kind": "Option", "inner": {"kind": "Date"}}}
    assert type_text(many) == "List of Date, or null"
    assert type_text({"kind": "Decimal", "precision": 9, "scale": 2}) == (
        "Decimal (precision 9, scale 2)"
    )


def test_the_page_of_a_dataset_tells_of_late_rows_and_warns_who_may_write(visitor, node):
    entry = node.keep(ten_rows(), "anna/late")
    jobs = node.node.stores.jobs
    for result in ({"rowsLate": 2}, {"rowsLate": 1, "warnings": ["1 file <b>waits</b>: d-10.csv"]}):
        jobs.submit(JobSpec(poll_job.KIND, entry.id, {}))
        claimed = jobs.claim("w", [poll_job.KIND], lease=timedelta(seconds=30))
        jobs.finish(claimed.id, "w", Succeeded(result))
    page = visitor.get("/anna/late").text
    assert "3 row(s) of its inputs came too late in the last 2 run(s)" in page
    assert "d-10.csv" not in page
    sign_in(visitor, login="anna", password="pwd_of_anna")
    page = visitor.get("/anna/late").text
    assert "The last run warns: 1 file &lt;b&gt;waits&lt;/b&gt;: d-10.csv" in page


POLLED = """
kind: MetadataEvent
version: 1
content:
  kind: SetPollingSource
  fetch: {kind: Url, url: "https://source.example/x.csv"}
  read: {kind: Csv, header: true}
  merge: {kind: Append}
"""


def test_the_page_of_a_dataset_says_how_long_its_polls_fail_and_to_writers_why(visitor, node):
    entry = node.keep(seeded().add(load_event(POLLED)), "anna/polled")
    jobs = node.node.stores.jobs
    for outcome in (Failed("X", "first"), Succeeded({}), Failed("X", "a"), Failed("X", "<b> gone")):
        assert "polls failed" not in visitor.get("/anna/polled").text
        jobs.submit(JobSpec(poll_job.KIND, entry.id, {}))
        claimed = jobs.claim("w", [poll_job.KIND], lease=timedelta(seconds=30))
        jobs.finish(claimed.id, "w", outcome)
    page = visitor.get("/anna/polled").text
    assert "The last 2 polls failed, since <time" in page
    assert "is told why" in page
    assert "&lt;b&gt; gone" not in page
    sign_in(visitor, login="anna", password="pwd_of_anna")
    assert "&lt;b&gt; gone" in visitor.get("/anna/polled").text


def test_a_link_to_a_dataset_is_shown_elsewhere_with_its_sentence(visitor, node):
    node.keep(
        ten_rows().add(SetInfo(description='Two "words" & <b>more</b>')), "anna/told-elsewhere"
    )
    text = visitor.get("/anna/told-elsewhere").text
    assert '<meta property="og:title" content="anna/told-elsewhere">' in text
    said = "Two &#34;words&#34; &amp; &lt;b&gt;more&lt;/b&gt;"
    assert f'<meta property="og:description" content="{said}">' in text
    assert f'<meta property="og:url" content="{node.url}/anna/told-elsewhere">' in text


def test_what_not_everybody_may_read_is_told_to_nobody_elsewhere(visitor, node):
    node.keep(ten_rows(), "anna/unshared", Visibility.PRIVATE)
    sign_in(visitor, token=node.token("anna"))
    shown = visitor.get("/anna/unshared")
    assert shown.status_code == 200
    assert "og:" not in shown.text
