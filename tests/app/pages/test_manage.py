"""The page where a dataset is kept: who sees it, what its forms change, and what they refuse."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from service import seeded, serving, ten_rows

from odf_node.service.accounts.accounts import ensure_account
from odf_protocol.metadata.events import SetPollingSource
from odf_protocol.metadata.sources import FetchStepUrl, MergeStrategyAppend, ReadStepNdJson
from odf_storage.stores.ports.values import Role, Scope, Visibility


@pytest.fixture
def node(tmp_path):
    with serving(tmp_path, tenancy="multi") as service:
        service.keep(ten_rows(), "anna/ten", visibility=Visibility.PRIVATE)
        service.token("bert")
        yield service


@pytest.fixture
def visit(node):
    opened = []

    def visitor(account: str | None = "anna", *scopes: Scope) -> Any:
        client = node.http()
        opened.append(client)
        client.headers["accept"] = "text/html"
        if account:
            client.cookies.set("odf_session", node.token(account, *scopes))
        return client

    yield visitor
    for client in opened:
        client.close()


PAGE = "/v/manage/anna/ten"


def fields(client, **others: str) -> dict[str, str]:
    """The fields of the first form as the page has them, with others in place of these."""
    text = client.get(PAGE).text.partition('id="columns"')[0]
    found = dict(re.findall(r'<input (?:type="hidden" )?name="(\w+)" value="([^"]*)"', text))
    readme = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", text, re.DOTALL)
    assert readme is not None
    shown = {**found, "readme": readme[1]}
    kept = ("seen", "description", "keywords", "license", "readme")
    return {"do": "describe"} | {name: html.unescape(shown[name]) for name in kept} | others


def send(client, do: str, page: str = PAGE, **given: str):
    return client.post(page, data={"do": do, **given})


def metadata(node, client) -> dict[str, Any]:
    answer = client.get(
        "/anna/ten/metadata?include=info,license,attachments",
        headers={"accept": "application/json", "authorization": f"Bearer {node.token('anna')}"},
    )
    return answer.json()["output"]


def test_who_may_not_write_to_a_dataset_sees_no_page_for_it(node, visit):
    stranger = visit(None).get(PAGE)
    assert (stranger.status_code, stranger.headers["location"]) == (303, f"/v/sign-in?next={PAGE}")
    assert visit("bert").get(PAGE).status_code == 404
    assert visit("anna", Scope.READ).get(PAGE).status_code == 403
    assert 'href="/v/manage/anna/ten"' in visit().get("/anna/ten").text
    assert "/v/manage" not in visit("anna", Scope.READ).get("/anna/ten").text


def test_what_a_dataset_is_about_is_changed_by_one_form_and_only_where_it_differs(node, visit):
    client = visit()
    before = client.get("/anna/ten/metadata", headers={"accept": "application/json"}).status_code
    assert before == 404  # the cookie is of the pages alone
    text = 'Ten "rows" & <b>no more</b>'
    changed = fields(client, description=text, keywords=" a, b c,,", license="CC-BY-4.0")
    assert client.post(PAGE, data=changed).status_code == 303
    known = metadata(node, client)
    assert known["info"] == {"description": text, "keywords": ["a", "b c"]}
    assert known["license"]["websiteUrl"] == "https://spdx.org/licenses/CC-BY-4.0.html"
    assert "attachments" not in known
    assert html.escape(text, quote=False) in client.get("/anna/ten").text.replace("&#34;", '"')
    blocks = len(re.findall("Set", client.get("/anna/ten?history=").text))
    assert client.post(PAGE, data=fields(client)).status_code == 303
    assert len(re.findall("Set", client.get("/anna/ten?history=").text)) == blocks
    assert client.post(PAGE, data=fields(client, description="")).status_code == 303
    assert metadata(node, client)["info"] == {"keywords": ["a", "b c"]}


def test_a_readme_is_looked_at_before_it_is_saved(node, visit):
    client = visit()
    draft = fields(client, readme="# Hello\r\n\r\n<script>alert(1)</script>", look="1")
    looked = client.post(PAGE, data=draft)
    assert looked.status_code == 200
    assert re.search("<h.[^>]*>Hello</h", looked.text)
    assert "<script>alert" not in looked.text
    assert "attachments" not in metadata(node, client)
    assert client.post(PAGE, data=draft | {"look": ""}).status_code == 303
    [item] = metadata(node, client)["attachments"]["attachments"]["items"]
    assert item == {"path": "README.md", "content": "# Hello\n\n<script>alert(1)</script>\n"}
    assert client.post(PAGE, data=fields(client, readme="")).status_code == 303
    assert metadata(node, client)["attachments"]["attachments"]["items"] == []


def test_texts_that_somebody_changed_meanwhile_are_not_undone(node, visit):
    client = visit()
    old = fields(client, description="mine")
    assert client.post(PAGE, data=fields(client, description="of another")).status_code == 303
    refused = client.post(PAGE, data=old)
    assert refused.status_code == 409
    assert 'value="mine"' in refused.text
    assert metadata(node, client)["info"]["description"] == "of another"


def columns(client, **others: str) -> dict[str, str]:
    """The fields of the form of columns as the page has them, with others in place of these."""
    text = client.get(PAGE).text.partition('id="columns"')[2].partition("</form>")[0]
    found = re.findall(r'name="([^"]+)" value="([^"]*)"', text)
    return {name: html.unescape(value) for name, value in found} | others


def test_columns_are_described_and_all_pages_and_catalogues_say_so(node, visit):
    client = visit()
    text = 'City "by" <name>'
    said = columns(client) | {"column city": text, "unit population": "people"}
    assert client.post(PAGE, data=said).status_code == 303
    assert columns(client)["column city"] == text
    shown = html.unescape(client.get("/anna/ten").text)
    assert f'<span class="said">{text}</span>' in shown
    assert f'title="{text}"' in shown
    assert '<span class="quiet">people</span>' in shown
    assert "<td>people</td>" in client.get("/anna/ten?columns=").text
    api = {"authorization": f"Bearer {node.token('anna')}", "accept": "application/json"}
    told = client.get("/anna/ten/croissant.json", headers=api).json()
    assert {"@type": "PropertyValue", "name": "city", "description": text} in told[
        "variableMeasured"
    ]
    [city] = [each for each in told["recordSet"][0]["field"] if each["name"] == "city"]
    assert city["description"] == text
    stac = client.get("/anna/ten/stac.json", headers=api).json()
    of = {each["name"]: each.get("description") for each in stac["table:columns"]}
    assert (of["city"], of["population"], of["offset"]) == (text, "(people)", None)


def test_columns_that_did_not_change_make_no_block_and_those_of_another_are_not_undone(node, visit):
    client = visit()
    old = columns(client) | {"column city": "mine"}
    assert client.post(PAGE, data=columns(client)).status_code == 303
    assert "SetDataSchema" not in client.get("/anna/ten?history=").text.split("<tbody>")[1][:600]
    assert client.post(PAGE, data=columns(client) | {"column city": "theirs"}).status_code == 303
    refused = client.post(PAGE, data=old)
    assert refused.status_code == 409
    assert 'value="mine"' in refused.text
    assert columns(client)["column city"] == "theirs"
    assert client.post(PAGE, data=columns(client) | {"column city": ""}).status_code == 303
    assert columns(client)["column city"] == ""
    bad = client.post(PAGE, data=columns(client) | {"unit city": "x" * 51})
    assert (bad.status_code, columns(client)["unit city"]) == (400, "")


def test_a_license_is_replaced_and_never_removed(visit):
    client = visit()
    assert client.post(PAGE, data=fields(client, license="CC0-1.0")).status_code == 303
    refused = client.post(PAGE, data=fields(client, license=""))
    assert refused.status_code == 400
    assert "not removed" in refused.text


def test_a_colleague_gets_a_role_and_loses_it(node, visit):
    client, bert = visit(), visit("bert")
    assert send(client, "give", account="bert", role="Editor").status_code == 303
    assert bert.get(PAGE).status_code == 200
    assert "Delete it" not in bert.get(PAGE).text
    for do in ("give", "take", "visibility", "rename", "delete"):
        assert send(bert, do, account="bert", role="Maintainer", name="x").status_code == 403
    assert send(client, "give", account="nobody", role="Reader").status_code == 404
    assert send(client, "give", account="bert", role="King").status_code == 400
    assert send(client, "take", account="bert").status_code == 303
    account = ensure_account(node.node.stores.accounts, "bert", bytes)
    assert Role.EDITOR not in node.node.stores.roles.of_account(account.id).values()


def test_it_is_made_public_renamed_and_deleted_once_its_name_is_typed(node, visit):
    client = visit()
    assert send(client, "visibility", visibility="public").status_code == 303
    assert visit(None).get("/anna/ten").status_code == 200
    moved = send(client, "rename", name="eleven")
    assert moved.headers["location"] == "/v/manage/anna/eleven"
    assert send(client, "rename", "/v/manage/anna/eleven", name="a/b").status_code == 400
    wrong = send(client, "delete", "/v/manage/anna/eleven", name="eleven")
    assert wrong.status_code == 400
    assert "nothing was deleted" in wrong.text
    gone = send(client, "delete", "/v/manage/anna/eleven", name="anna/eleven")
    assert (gone.status_code, gone.headers["location"]) == (303, "/")
    assert client.get("/anna/eleven").status_code == 404


def test_a_schedule_is_added_and_ended(node, visit):
    source = SetPollingSource(
        fetch=FetchStepUrl(url="https://example.com/cities.csv"),
        read=ReadStepNdJson(),
        merge=MergeStrategyAppend(),
    )
    node.keep(seeded().add(source), "anna/polled")
    client, page = visit(), "/v/manage/anna/polled"
    assert send(client, "schedule", page, every="day").status_code == 303
    shown = client.get(page).text
    assert "every 86400 s" in shown
    [one] = re.findall(r'name="schedule" value="([^"]+)"', shown)
    assert send(client, "schedule", page, cron="61 * * * *").status_code == 400
    assert send(client, "schedule", page, every="blink").status_code == 400
    assert send(client, "unschedule", page, schedule="other").status_code == 404
    assert send(client, "unschedule", page, schedule=one).status_code == 303
    assert "every 86400 s" not in client.get(page).text


def test_a_dataset_whose_rows_are_posted_has_no_form_for_schedules(visit):
    client = visit()
    assert "Add the schedule" not in client.get(PAGE).text
    assert "has nothing to refresh" in client.get(PAGE).text
    refused = send(client, "schedule", every="day")
    assert refused.status_code == 400
    assert "its rows are posted" in refused.text


def test_forms_of_other_sites_unknown_ones_and_endless_ones_are_refused(visit):
    client = visit()
    foreign = {"origin": "https://evil.example"}
    assert client.post(PAGE, data={"do": "delete"}, headers=foreign).status_code == 403
    assert client.post("/v/rows/anna/ten", headers=foreign).status_code == 403
    assert send(client, "explode").status_code == 400
    assert send(client, "describe", readme="x" * (1 << 20)).status_code == 413
    assert send(client, "retract", offset="1 or 1=1").status_code == 400


def test_a_row_is_shown_before_it_is_taken_back(visit):
    shown = send(visit(), "retract", offset="3")
    assert shown.status_code == 200
    assert "Take it back" in shown.text
    gone = send(visit(), "retract", offset="99")
    assert gone.status_code == 404
    assert "offset 99" in gone.text


@pytest.mark.parametrize(
    ("do", "typed"),
    [
        ("give", {"account": "nobody77", "role": "Maintainer"}),
        ("rename", {"name": "no/name"}),
        ("retract", {"offset": "4711"}),
        ("delete", {"name": "anna/eleven"}),
    ],
)
def test_what_was_typed_into_a_form_stays_when_it_is_refused(visit, do, typed):
    answer = send(visit(), do, **typed)
    assert answer.status_code >= 400
    form = answer.text.partition(f'value="{do}"')[2].partition("</form>")[0]
    for text in typed.values():
        assert re.search(rf'value="{text}"( required| selected)', form)
    others = answer.text.replace(form, "")
    assert not any(f'value="{typed.get(name)}"' in others for name in ("account", "name"))


def test_a_schedule_keeps_its_time_zone_while_its_times_are_corrected(node, visit):
    source = SetPollingSource(
        fetch=FetchStepUrl(url="https://example.org"),
        read=ReadStepNdJson(),
        merge=MergeStrategyAppend(),
    )
    node.keep(seeded().add(source), "anna/polled")
    page = "/v/manage/anna/polled"
    typed = {"cron": "61 * * * *", "time_zone": "Europe/Berlin", "every": "week"}
    answer = send(visit(), "schedule", page, **typed)
    assert answer.status_code == 400
    form = answer.text.partition('value="schedule"')[2].partition("</form>")[0]
    assert "<option selected>week" in form
    assert "<details open>" in form
    assert 'value="61 * * * *"' in form
    assert 'value="Europe/Berlin"' in form


def test_a_license_that_is_none_of_the_list_is_asked_about_and_then_saved(node, visit):
    client = visit()
    asked = client.post(PAGE, data=fields(client, license="CC-BY"))
    assert "near ones are CC-BY-4.0" in html.unescape(asked.text)
    assert "license" not in metadata(node, client)
    [sure] = re.findall(r'name="sure_license" value="([^"]*)"', asked.text)
    again = client.post(PAGE, data=fields(client, license="CC-BY", sure_license=sure))
    assert again.status_code == 303
    assert metadata(node, client)["license"]["shortName"] == "CC-BY"
