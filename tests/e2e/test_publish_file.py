"""A file becomes a dataset by one command, as a stranger would do it, on a real node and worker."""

from __future__ import annotations

import gzip
import json

import pytest
from nodes import odf

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

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


def test_a_row_behind_the_sample_that_does_not_fit_is_told_and_nothing_stays(node, publish):
    good = "".join(f"{at},{at}\n" for at in range(60_000))
    done = publish("later.csv", f"id,n\n{good}7,heavy\n", "--yes", expect=1)
    assert "line 60002" in done.stderr
    assert "nothing was published" in done.stderr
    with node.http(node.token()) as client:
        assert client.get("/later").status_code == 404


def test_an_open_question_is_not_decided_silently(node, publish):
    text = "id,day\n1,01/02/2025\n2,03/04/2025\n"
    assert "--date-order" in publish("days.csv", text, "--yes", expect=1).stderr
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


def test_a_manifest_of_init_makes_the_dataset_that_takes_the_file(node, tmp_path):
    env = {"ODF_NODE_TOKEN": node.token()}
    file, manifest = tmp_path / "towns.csv", tmp_path / "towns.yaml"
    file.write_text(ROWS)
    odf("dataset", "init", file, "towns", "-o", manifest)
    odf("dataset", "init", file, "towns", "-o", manifest, expect=1)  # what is there stays
    odf("dataset", "create", manifest, "--node", node.url, **env)
    assert "3 added" in odf("ingest", file, f"{node.url}/towns", **env).stdout
