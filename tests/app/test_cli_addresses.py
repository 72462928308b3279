"""One grammar for datasets in all commands: URL, folder, name or id on a node, REPOSITORY/NAME."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from chains import make_dataset
from click.testing import CliRunner
from service import serving, ten_rows

import odf_node
from odf_node.cli.main import main
from odf_node.cli.shell.help import EXAMPLES
from odf_node.client.nodes.limits import spark_text


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("single"), tenancy="single") as service:
        service.keep(ten_rows(), "kamu/foo")
        yield service


@pytest.fixture(scope="module")
def multi(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("multi"), tenancy="multi") as service:
        service.keep(ten_rows(bytes([7] * 32)), "anna/foo")
        yield service


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODF_NODE_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("ODF_NODE_TOKEN", "")
    monkeypatch.setenv("ODF_NODE_URL", "")


def run(*words, code=0, **env):
    done = CliRunner().invoke(main, [str(word) for word in words], env=env)
    assert done.exit_code == code, f"{done.exit_code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def command_of(path: str) -> click.Command:
    command: click.Command = main
    for name in path.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


def id_at(service) -> str:
    token = service.token("kamu")
    with service.http(token) as http:
        return next(one["id"] for one in http.get("/datasets").json()["datasets"])


def test_every_command_about_a_dataset_of_a_node_takes_it_by_node_and_name():
    taking = {
        path
        for path in EXAMPLES
        for one in command_of(path).params
        if isinstance(one, click.Argument) and one.metavar == "DATASET" and one.name != "only"
    }
    assert len(taking) > 25
    lacking = {p for p in taking if not any("--node" in o.opts for o in command_of(p).params)}
    on_the_stores_of_a_node = {"projection kartothek", "keys export", "keys import", "keys forget"}
    assert lacking == on_the_stores_of_a_node


@pytest.mark.parametrize("command", [("log",), ("dataset", "show"), ("read",), ("lineage",)])
def test_a_name_and_an_id_are_of_the_node_that_is_named(single, command):
    by_url = run(*command, f"{single.url}/foo", "--json")
    for name in ("foo", id_at(single)):
        assert run(*command, name, "--json", ODF_NODE_URL=single.url) == by_url
        assert run(*command, name, "--node", single.url, "--json") == by_url
    run("repo", "add", "work", single.url)
    for name in ("work/foo", f"work/{id_at(single)}"):
        assert json.loads(run(*command, name, "--json")) == json.loads(by_url)
    assert run(*command, "foo", "--node", "work", "--json") == by_url


def test_names_on_a_node_with_accounts_have_their_account(multi):
    token = multi.token("anna")
    given = {"ODF_NODE_URL": multi.url, "ODF_NODE_TOKEN": token}
    for name in ("anna/foo", "foo", id_at(multi)):
        assert json.loads(run("dataset", "show", name, "--json", **given))["alias"] == "anna/foo"
    given["ODF_NODE_TOKEN"] = multi.token("bert")
    assert (
        json.loads(run("dataset", "show", id_at(multi), "--json", **given))["alias"] == "anna/foo"
    )


def test_a_folder_that_is_there_goes_before_a_name_and_only_where_folders_are_taken(
    single, tmp_path
):
    run("pull", "foo", "mine", ODF_NODE_URL=single.url)
    assert run("read", "mine") == run("read", "foo", ODF_NODE_URL=single.url)
    (tmp_path / "mine").rename(tmp_path / "foo")
    assert run("read", "foo", ODF_NODE_URL="http://127.0.0.1:9/") == run("read", "./foo")
    assert run("dataset", "show", "foo", ODF_NODE_URL=single.url)


def test_python_names_datasets_as_the_commands_do(single, monkeypatch):
    by_url = odf_node.open(f"{single.url}/foo").arrow()
    monkeypatch.setenv("ODF_NODE_URL", single.url)
    assert odf_node.open("foo").arrow() == by_url
    assert odf_node.open(id_at(single)).arrow() == by_url


def test_a_name_without_a_node_is_told_how_to_name_one():
    done = CliRunner().invoke(main, ["dataset", "show", "foo"])
    assert done.exit_code == 2
    assert "--node or ODF_NODE_URL" in done.stderr


def test_an_id_that_the_node_has_not_is_not_found(single):
    other = "did:odf:fed01" + "00" * 32
    run("dataset", "show", other, "--node", single.url, code=3)


def test_a_url_and_another_node_contradict_each_other(single):
    run("dataset", "show", f"{single.url}/foo", "--node", single.url, code=2)


@pytest.mark.parametrize("command", ["log", "read"])
def test_a_reader_that_needs_no_more_ends_a_command_quietly(tmp_path, command):
    dataset = make_dataset(tmp_path / "long", rows=[200_000])
    for _ in range(300 if command == "log" else 0):
        dataset.add_rows(1)
    words = [sys.executable, "-c", "from odf_node.cli.main import main; main()", command]
    with subprocess.Popen(
        [*words, str(dataset.folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(1)
        child.stdout.close()
        said = child.stderr.read()
    assert (child.returncode, said) == (0, b"")


def test_lists_questions_and_jobs_ask_the_node_of_the_environment(single):
    assert "foo" in run("dataset", "list", ODF_NODE_URL=single.url)
    run("job", "show", "nothing", code=2)
    run("job", "show", "nothing", code=3, ODF_NODE_URL=single.url, ODF_NODE_TOKEN=single.token())


def test_show_draws_the_rows_of_the_newest_slices(single):
    chain = ten_rows()
    for rows in (1, 5):
        chain.add_rows(rows)
    single.keep(chain, "kamu/drawn")
    shown = run("dataset", "show", "drawn", ODF_NODE_URL=single.url)
    assert shown.splitlines()[-1] == "# █▂▅ rows of the newest 3 slice(s), 10 at most"
    assert "# " not in run("dataset", "show", "drawn", "--json", ODF_NODE_URL=single.url)


def test_counts_are_drawn_as_high_as_they_are():
    assert spark_text([0, 1, 50, 100]) == "▁▂▅█"
    assert spark_text([0, 0]) == "▁▁"
    assert spark_text([]) == ""
