"""A file becomes a dataset by one command, as a stranger would do it, on a real node and worker."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
from html import unescape
from pathlib import Path

import pytest
import yaml
from backends import ONE_PAIR
from browsers import overflow, violations
from nodes import COMMAND, odf

pytestmark = [
    pytest.mark.e2e,
    # Commands and form meet a node, wherever it keeps its data.
    pytest.mark.parametrize("pair", ONE_PAIR, indirect=True),
]

ROWS = """\
Id;City;Founded;Population;Seen
1;Oslo;31.12.1048;709037;01.02.2025 12:30
2;Bergen;1.1.1070;NA;02.02.2025 12:31
3;"Trond;heim";5.3.1997;212660;03.02.2025 12:32
"""


@pytest.fixture
def publish(node, tmp_path):
    env = {"ODF_NODE_TOKEN": node.token(), "ODF_NODE_URL": node.url}

    def run(name, content, *words, expect=0):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return odf("publish", file, *words, expect=expect, **env)

    return run


def test_a_file_with_dates_is_published_in_one_step(node, publish):
    done = publish("my cities.csv.gz", gzip.compress(ROWS.encode()), "--yes")
    assert "3 row(s) read, 3 added" in done.stdout
    assert f"{node.url}/my-cities" in done.stdout
    assert "key: Id (UpsertStream)" in done.stderr
    with node.http(node.token()) as client:
        rows = client.get("/my-cities/tail").json()["data"]
    assert [(row["City"], row["Founded"], row["Population"]) for row in rows] == [
        ("Oslo", "1048-12-31", 709037),
        ("Bergen", "1070-01-01", None),
        ("Trond;heim", "1997-03-05", 212660),
    ]
    assert rows[0]["Seen"].startswith("2025-02-01T12:30:00")
    publish("my cities.csv", ROWS, "--yes", expect=5)


def test_a_new_dataset_is_named_by_its_url_too(node, tmp_path):
    file, token = tmp_path / "towns.csv", ("--token", node.token())
    file.write_text("town,people\nMoss,50000\n")
    done = odf("publish", file, f"{node.url}/small-towns", "--yes", *token, ODF_NODE_URL="")
    assert f"{node.url}/small-towns" in done.stdout
    done = odf("publish", file, "towns", "--yes", *token, ODF_NODE_URL="", expect=2)
    assert "--node" in done.stderr
    done = odf("publish", file, f"{node.url}/a/b/c", "--yes", *token, ODF_NODE_URL="", expect=2)
    assert "name a dataset" in done.stderr


def test_a_row_behind_the_sample_that_does_not_fit_is_told_and_nothing_stays(node, publish):
    good = "".join(f"{at},1{at:06}\n" for at in range(100_000))
    packed = gzip.compress(f"id,n\n{good}7,heavy\n".encode())
    done = publish("later.csv.gz", packed, "--yes", "--look", 1, expect=2)
    assert "line 100002" in done.stderr
    assert "nothing was published" in done.stderr
    with node.http(node.token()) as client:
        assert client.get("/later").status_code == 404


def test_an_open_question_is_not_decided_silently(node, publish):
    text = "id,day\n1,01/02/2025\n2,03/04/2025\n"
    assert "--date-order" in publish("days.csv", text, "--yes", expect=2).stderr
    with node.http(node.token()) as client:
        assert client.get("/days").status_code == 404
        publish("days.csv", text, "--yes", "--date-order", "mdy")
        assert client.get("/days/tail").json()["data"][0]["day"] == "2025-01-02"


def test_a_dry_run_shows_the_proposal_and_makes_nothing(node, publish):
    done = publish("dry.csv", ROWS, "--dry-run", "--json")
    shown = json.loads(done.stdout)
    assert (shown["key"], shown["eventTime"], shown["dryRun"]) == (["Id"], "Seen", True)
    with node.http(node.token()) as client:
        assert client.get("/dry").status_code == 404
    publish("dry.csv", ROWS, "--json", expect=2)
    publish("dry.csv", ROWS, expect=1)  # asks, and nobody answers


def test_the_receipt_as_json_has_the_notes_on_what_was_decided(publish):
    text = "at,n\n13/02/24 10:00,1\n14/02/24 11:00,NA\n15/02/24 12:00,3\n"
    told = json.loads(publish("noted.csv", text, "--yes", "--json").stdout)
    assert told["receipt"]["rowsAdded"] == 3
    for note in (
        "at: written as d/M/yy H:mm",
        "at: two digits of a year are read as 2000 to 2099",
        "at: times without a zone are taken to be in UTC (--time-zone)",
        "'NA' stands for no value, in all columns",
    ):
        assert note in told["notes"]


def test_a_manifest_of_init_makes_the_dataset_that_takes_the_file(node, tmp_path):
    env = {"ODF_NODE_TOKEN": node.token()}
    file, manifest = tmp_path / "towns.csv", tmp_path / "towns.yaml"
    file.write_text(ROWS)
    odf("dataset", "init", file, "towns-of-init", "-o", manifest)
    odf("dataset", "init", file, "towns-of-init", "-o", manifest, expect=1)  # what is there stays
    odf("dataset", "create", manifest, "--node", node.url, **env)
    assert "3 added" in odf("ingest", file, f"{node.url}/towns-of-init", **env).stdout


# --- the form in the browser ----------------------------------------------------------------

US = "id,day,n\n1,01/02/2025,5\n2,03/04/2025,6\n"


@pytest.fixture
def form(node):
    """A visitor who is signed in; `form(name, content)` sends a file."""
    with node.http() as client:
        client.cookies.set("odf_session", node.token())

        def send(name, content):
            return client.post("/v/publish", files={"file": (name, content, "application/x-odd")})

        send.client = client
        yield send


def fields_of(text):
    """What a browser would send of the form: hidden fields, inputs, selects, ticked boxes."""
    found = {}
    for one in re.findall(r"<input [^>]*>", text):
        name = re.search(r'name="([^"]*)"', one)
        is_box = 'type="checkbox"' in one
        if name and not (is_box and " checked" not in one):
            value = re.search(r'value="([^"]*)"', one)
            found.setdefault(name[1], []).append(unescape(value[1]) if value else "")
    for name, options in re.findall(r'<select name="([^"]*)"[^>]*>(.*?)</select>', text, re.DOTALL):
        chosen = re.search(r"<option([^>]*) selected>([^<]*)", options)
        value = re.search(r'value="([^"]*)"', chosen[1]) if chosen else None
        found[name] = [value[1] if value else chosen[2] if chosen else ""]
    return found


def test_a_visitor_publishes_a_file_with_the_form(node, form):
    page = form("form cities.csv.gz", gzip.compress(ROWS.encode()))
    assert page.status_code == 200
    fields = fields_of(page.text)
    assert (fields["name"], fields["key"]) == (["form-cities"], ["0"])
    done = form.client.post("/v/publish/dataset", data={**fields, "do": "publish"})
    assert (done.status_code, done.headers["location"]) == (303, "/form-cities")
    rows = form.client.get("/form-cities/tail", headers={"authorization": f"Bearer {node.token()}"})
    assert [row["City"] for row in rows.json()["data"]] == ["Oslo", "Bergen", "Trond;heim"]
    again = form.client.post("/v/publish/dataset", data={**fields, "do": "publish"})
    assert again.status_code == 409
    assert 'value="form-cities"' in again.text


def test_the_form_asks_what_the_file_does_not_tell(form):
    fields = fields_of(form("form-days.csv", US).text)
    asked = form.client.post("/v/publish/dataset", data={**fields, "do": "publish"})
    assert asked.status_code == 400
    assert "whether the day or the month comes first" in asked.text
    chosen = {
        **fields,
        "date_order": "mdy",
        "type.2": "String",
        "key": ["0", "2"],
        "merge": "ledger",
    }
    seen = fields_of(form.client.post("/v/publish/dataset", data={**chosen, "do": "look"}).text)
    assert (seen["type.2"], seen["key"], seen["merge"]) == (["String"], ["0", "2"], ["ledger"])
    done = form.client.post("/v/publish/dataset", data={**seen, "do": "publish"})
    assert done.status_code == 303


def test_the_form_asks_for_the_type_of_years_of_two_digits_that_are_far_ahead(form):
    text = "born,name\n13/02/34,a\n28/02/98,b\n"
    fields = fields_of(form("form-born.csv", text).text)
    asked = form.client.post("/v/publish/dataset", data={**fields, "do": "publish"})
    assert asked.status_code == 400
    assert "“Type” born=String keeps the texts" in asked.text
    assert "--type" not in asked.text
    assert '<option value="">choose</option>' in asked.text
    chosen = {**fields, "type.0": "Date"}
    seen = fields_of(form.client.post("/v/publish/dataset", data={**chosen, "do": "look"}).text)
    assert seen["type.0"] == ["Date"]
    done = form.client.post("/v/publish/dataset", data={**seen, "do": "publish"})
    assert done.status_code == 303


def test_a_file_that_the_node_refuses_leaves_no_dataset(form):
    good = "".join(f"{at},1{at:06}\n" for at in range(100_000))
    packed = gzip.compress(f"id,n\n{good}7,heavy\n".encode())
    fields = fields_of(form("form-later.csv.gz", packed).text)
    refused = form.client.post("/v/publish/dataset", data={**fields, "do": "publish"})
    assert refused.status_code == 400
    assert "line 100002" in refused.text
    assert form.client.get("/form-later").status_code == 404


def test_the_action_for_github_publishes_a_file_first_and_posts_it_afterwards(node, tmp_path):
    place = Path(__file__).parents[2] / "examples" / "publish-action" / "action.yml"
    action = yaml.safe_load(place.read_text())
    (step,) = (each for each in action["runs"]["steps"] if each.get("id") == "publish")
    said, outputs = tmp_path / "-my towns.csv", tmp_path / "outputs"
    given = {"file": said.name, "dataset": f"{node.url}/acted", "token": node.token()}
    given |= {"options": "--key id"}

    def run(rows: str, **other: str) -> int:
        said.write_text(rows)
        known = {**given, **other}
        env = {
            name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: known[found[1]], text)
            for name, text in step["env"].items()
        }
        path = f"{COMMAND.parent}:{os.environ['PATH']}"
        env |= {"PATH": path, "HOME": str(tmp_path), "GITHUB_OUTPUT": str(outputs)}
        command = ["bash", "-c", step["run"]]
        return subprocess.run(command, env=env, cwd=tmp_path, check=False).returncode

    assert run("id,town\n1,Moss\n") == 0
    assert run("id,town\n1,Moss\n2,Oslo\n") == 0
    with node.http(node.token()) as client:
        rows = client.get("/acted/tail").json()["data"]
        head = client.get("/acted/refs/head").text
    assert [(row["id"], row["town"]) for row in rows] == [(1, "Moss"), (2, "Oslo")]
    assert outputs.read_text().splitlines()[-1] == f"head={head}"
    assert run("id,town\n3,x\n", token="ka_of_nobody") != 0
    hostile = {"dataset": f"{node.url}/other", "options": "$(touch hacked) ; touch hacked"}
    assert run("id,town\n3,x\n", **hostile) != 0
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_form_works_in_a_browser_without_script(node, window, tmp_path, width, scheme):
    name = f"seen-{width}-{scheme}"
    file = tmp_path / f"{name}.csv"
    file.write_text(ROWS)
    page = window(f"{node.url}/v/sign-in?next=/v/publish", width=width, scheme=scheme, script=False)
    page.fill('input[name="token"]', node.token())
    page.click("main button")
    page.set_input_files('input[type="file"]', str(file))
    assert overflow(page) <= 0
    page.click("text=Look at it")
    assert page.input_value('input[name="name"]') == name
    assert overflow(page) <= 0
    page.screenshot(path=str(tmp_path / "publish.png"), full_page=True)
    page.click('button[value="publish"]')
    page.wait_for_url(f"**/{name}")
    assert name in page.title()


def test_the_form_has_no_hindrance_to_people(node, window, tmp_path):
    file = tmp_path / "hindrance.csv"
    file.write_text(US)
    page = window(f"{node.url}/v/sign-in?next=/v/publish")
    page.fill('input[name="token"]', node.token())
    page.click("main button")
    assert violations(page) == []
    page.set_input_files('input[type="file"]', str(file))
    page.click("text=Look at it")
    assert violations(page) == []
