"""Names of repositories, where pushes go and pulls come from when little is said."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from chains import make_dataset
from click.testing import CliRunner
from refusals import refusing
from service import serving, ten_rows
from static_files import answering, send

from odf_node.cli.main import main
from odf_node.client.nodes.remotes import Location, Repositories, note_remotes, remotes_of
from odf_node.client.nodes.targets import read_address, write_address
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef, MalformedName
from odf_storage.stores.ports.values import Visibility

DATASET = DatasetId(bytes(32))
URL = "odf+http://node.example:8080/"


@pytest.fixture
def known(tmp_path) -> Repositories:
    return Repositories(tmp_path / "config")


@pytest.fixture(scope="module")
def multi(tmp_path_factory):
    settings = {"mirror_networks": ["127.0.0.0/8"], "poll_s": 0.05}
    with serving(tmp_path_factory.mktemp("multi"), tenancy="multi", **settings) as service:
        yield service


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("single"), tenancy="single") as service:
        yield service


def run(config: Path, *words: object, code: int = 0, **env: str):
    given = {"ODF_NODE_CONFIG": str(config), "ODF_NODE_TOKEN": "", **env}
    done = CliRunner().invoke(main, [str(word) for word in words], env=given)
    assert done.exit_code == code, f"{done.exit_code}\n{done.stdout}\n{done.stderr}"
    return done


def target(text, folder, repositories, dataset=DATASET):
    return str(write_address(text, folder, lambda: dataset, repositories).location)


# --- repositories ---------------------------------------------------------------------------


def test_repositories_are_kept_in_a_file_only_their_owner_reads(tmp_path):
    Repositories(tmp_path / "c").add("Remote", URL, "secret")
    kept = tmp_path / "c" / "repositories.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    again = Repositories(tmp_path / "c")
    found = again.get("remote")
    assert (found.url, found.token) == (URL, "secret")
    assert "secret" not in repr(found)
    with refusing("RepositoryExists"):
        again.add("REMOTE", URL)
    again.remove("remote")
    with refusing("RepositoryUnknown"):
        Repositories(tmp_path / "c").get("remote")


def test_what_is_no_name_or_no_node_is_refused(known):
    with pytest.raises(MalformedName):
        known.add("a/b", URL)
    for url in ("./folder", "ftp://x/", "http://user:pass@x/"):
        with refusing("UnsupportedUrl"):
            known.add("a", url)
    assert known.all() == {}


def test_a_file_that_is_not_ours_any_more_is_told(tmp_path):
    (tmp_path / "repositories.json").write_text("{")
    with refusing("UnreadableConfig"):
        Repositories(tmp_path)


def test_repositories_from_the_command_line(tmp_path):
    run(tmp_path, "repo", "add", "mine", "http://localhost:1/x", "--token", "t")
    run(tmp_path, "repo", "add", "mine", "http://localhost:1/", code=5)
    listed = json.loads(run(tmp_path, "repo", "list", "--json").stdout)
    assert listed == [{"name": "mine", "url": "http://localhost:1/x/", "hasToken": True}]
    assert "(token)" in run(tmp_path, "repo", "list").stdout
    run(tmp_path, "repo", "remove", "mine")
    run(tmp_path, "repo", "remove", "mine", code=3)


# --- where a push goes ----------------------------------------------------------------------


@pytest.mark.scenario("F01")
def test_a_push_to_a_repository_goes_to_the_folders_name_there(known, single, tmp_path):
    known.add("remote", "odf+" + single.url)
    assert target("remote", tmp_path / "foo", known) == f"odf+{single.url}/foo/"


@pytest.mark.scenario("F01")
def test_a_push_to_a_repository_goes_where_the_node_has_the_dataset(known, single, tmp_path):
    chain = ten_rows()
    single.keep(chain, "kamu/another-name")
    known.add("remote", single.url)  # registered as plain HTTP, and pushed to by the smart protocol
    assert target("remote", tmp_path / "foo", known, chain.id) == f"odf+{single.url}/another-name/"


@pytest.mark.scenario("F02")
def test_a_push_to_a_url_uses_it_as_it_is(known, tmp_path):
    assert target(URL + "bar", tmp_path, known) == URL + "bar/"
    assert target("./mirror", tmp_path, known) == "mirror"


@pytest.mark.scenario("F03")
def test_a_push_to_a_name_of_a_repository_goes_there(known, single, multi, tmp_path):
    known.add("remote", "odf+" + single.url)
    known.add("many", "odf+" + multi.url, multi.token("anna"))
    known.add("nobody", "odf+" + multi.url)
    assert target("remote/bar", tmp_path, known) == f"odf+{single.url}/bar/"
    assert target("many/bar", tmp_path, known) == f"odf+{multi.url}/anna/bar/"
    assert target("many/bert/bar", tmp_path, known) == f"odf+{multi.url}/bert/bar/"
    assert target("nobody/bar", tmp_path, known) == f"odf+{multi.url}/bar/"
    with refusing("NotADataset"):
        target("many/a/b/c", tmp_path, known)


@pytest.mark.scenario("F04")
def test_a_push_without_target_goes_where_the_last_one_went(known, tmp_path):
    known.add("one", URL)
    known.add("two", URL)
    note_remotes(tmp_path, push=Location.parse(URL + "noted"))
    assert target(None, tmp_path, known) == URL + "noted/"


@pytest.mark.scenario("F05")
def test_a_push_without_target_goes_to_the_only_repository(known, single, tmp_path):
    known.add("remote", "odf+" + single.url)
    assert target(None, tmp_path / "foo", known) == f"odf+{single.url}/foo/"


@pytest.mark.scenario("F06")
def test_a_push_without_target_and_with_several_repositories_is_ambiguous(known, tmp_path):
    known.add("one", URL)
    known.add("two", URL)
    with refusing("AmbiguousTarget"):
        target(None, tmp_path, known)


@pytest.mark.scenario("F07")
def test_a_push_without_target_and_without_repository_has_no_target(known, tmp_path):
    with refusing("NoTarget"):
        target(None, tmp_path, known)


@pytest.mark.scenario("F08")
def test_where_a_push_went_is_noted_unless_that_is_not_wanted(single, tmp_path):
    mine = make_dataset(tmp_path / "mine", rows=[3], key=21)
    url, token = f"odf+{single.url}/noted", single.token()
    config = tmp_path / "config"
    run(config, "push", mine.folder, url, "--token", token, "--no-alias")
    assert remotes_of(mine.folder).push is None
    run(config, "push", mine.folder, code=2)
    run(config, "push", mine.folder, url, "--token", token)
    assert remotes_of(mine.folder).push == url + "/"
    mine.add_rows(2)
    told = json.loads(run(config, "push", mine.folder, "--token", token, "--json").stdout)
    assert (told["blocks"], told["target"]) == (1, url + "/")


@pytest.mark.scenario("D03")
def test_a_push_that_must_not_create_finds_nothing(single, tmp_path):
    mine = make_dataset(tmp_path / "mine", rows=[3], key=22)
    url = f"odf+{single.url}/never-made"
    words = (tmp_path, "push", mine.folder, url, "--token", single.token(), "--no-create")
    run(*words, code=3)
    run(tmp_path, "push", mine.folder, tmp_path / "nowhere", "--no-create", code=3)
    alias = DatasetAlias.parse("kamu/never-made")
    assert single.node.stores.registry.find(DatasetRef(alias=alias)) is None
    run(*words[:-1])
    run(*words)


# --- where a pull comes from ----------------------------------------------------------------


def test_a_pull_from_a_repository_speaks_as_it_was_registered(known, multi):
    known.add("smart", "odf+" + multi.url, multi.token("anna"))
    known.add("simple", multi.url)
    smart, simple = (read_address(f"{name}/bar", known) for name in ("smart", "simple"))
    assert str(smart.location) == f"odf+{multi.url}/anna/bar/"
    assert str(simple.location) == f"{multi.url}/bar/"
    assert str(read_address("simple/x/bar", known).location) == f"{multi.url}/x/bar/"
    with refusing("NotADataset"):
        read_address("smart", known)


def test_a_folder_is_pulled_again_from_where_it_came(single, tmp_path):
    chain = ten_rows()
    single.keep(chain, "kamu/pulled")
    config, folder = tmp_path / "config", tmp_path / "ours"
    run(config, "repo", "add", "remote", "odf+" + single.url)
    run(config, "pull", "remote/pulled", folder)
    assert remotes_of(folder).pull == f"odf+{single.url}/pulled/"
    assert "up to date" in run(config, "pull", folder).stdout
    run(config, "pull", "remote/pulled", tmp_path / "other", "--no-alias")
    run(config, "pull", tmp_path / "other", code=2)


# --- tokens ---------------------------------------------------------------------------------


def test_the_token_of_a_repository_goes_to_its_origin_only(tmp_path):
    heard: dict[str, list[str | None]] = {"own": [], "other": []}

    def listening(name):
        def listen(handler):
            heard[name].append(handler.headers.get("authorization"))
            send(handler, 404)

        return listen

    with answering(listening("own")) as own, answering(listening("other")) as other:
        config = tmp_path / "config"
        run(config, "repo", "add", "own", own.url, "--token", "secret")
        for source in ("own/foo", own.url + "/elsewhere/", other.url + "/foo/"):
            run(config, "pull", source, tmp_path / "x", code=3)
        assert set(heard["own"]) == {"Bearer secret"}
        assert set(heard["other"]) == {None}
        run(config, "pull", "own/foo", tmp_path / "x", code=3, ODF_NODE_TOKEN="of-another-node")
        assert heard["own"][-1] == "Bearer secret"
        run(config, "pull", "own/foo", tmp_path / "x", "--token", "given", code=3)
        assert heard["own"][-1] == "Bearer given"


COMMANDS = (
    ("read", "{}/foo"),
    ("log", "{}/foo"),
    ("lineage", "{}/foo"),
    ("dataset", "show", "{}/foo"),
    ("job", "list", "{}/foo"),
    ("refresh", "{}/foo"),
    ("pull", "{}/foo", "{tmp}"),
    ("pull", "odf+{}/foo", "{tmp}"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_token_of_the_environment_goes_to_its_node_and_to_no_other_host(tmp_path, words):
    """Named by a URL alone, another node gets nothing; by --node or a repository, it does."""
    heard = []

    def listen(handler):
        heard.append(handler.headers.get("authorization"))
        send(handler, 404)

    with answering(listen, "") as server:
        home = server.url.rstrip("/")
        elsewhere = home.replace("127.0.0.1", "127.0.0.2")

        def told(address, *more, **env):
            heard.clear()
            given = {"ODF_NODE_TOKEN": "secret", "ODF_NODE_CONFIG": str(tmp_path / "c"), **env}
            texts = [word.format(address, tmp=tmp_path / "x") for word in words]
            done = CliRunner().invoke(main, [*texts, *more], env=given)
            assert done.exit_code != 0
            assert heard, done.output
            return set(heard)

        assert told(home) == {"Bearer secret"}
        assert told(home.replace("127.0.0.1", "localhost")) == {"Bearer secret"}
        assert told(elsewhere) == {None}
        assert told(elsewhere, ODF_NODE_URL=elsewhere + "/") == {"Bearer secret"}
        assert told(home, ODF_NODE_URL=elsewhere) == {None}
        assert told(elsewhere, ODF_NODE_URL=elsewhere + "0") == {None}
        assert told(elsewhere, "--token", "given") == {"Bearer given"}


@pytest.mark.parametrize("scheme", ["http", "odf+http"])
def test_a_redirect_takes_no_token_to_another_host(tmp_path, scheme):
    heard: dict[str, list[str | None]] = {"own": [], "other": []}

    def lost(handler):
        heard["other"].append(handler.headers.get("authorization"))
        send(handler, 404)

    with answering(lost) as other:

        def moved(handler):
            heard["own"].append(handler.headers.get("authorization"))
            send(handler, 302, location=other.url.rstrip("/") + handler.path)

        with answering(moved) as own:
            source = own.url.replace("http", scheme, 1) + "foo/"
            run(tmp_path / "c", "pull", source, tmp_path / "x", "--token", "secret", code=3)
    assert set(heard["own"]) == {"Bearer secret"}
    assert set(heard["other"]) == {None}


def test_a_node_that_is_named_gets_the_token_of_the_environment(tmp_path):
    heard = []

    def listen(handler):
        heard.append(handler.headers.get("authorization"))
        send(handler, 404)

    with answering(listen, "") as server:
        elsewhere, config = (
            server.url.rstrip("/").replace("127.0.0.1", "127.0.0.2"),
            tmp_path / "config",
        )
        run(config, "repo", "add", "there", elsewhere)
        run(config, "pull", "there/foo", tmp_path / "x", code=3, ODF_NODE_TOKEN="secret")
        run(config, "dataset", "list", "--node", elsewhere, code=3, ODF_NODE_TOKEN="secret")
        run(config, "dataset", "show", "foo", "--node", elsewhere, code=3, ODF_NODE_TOKEN="secret")
        assert set(heard) == {"Bearer secret"}


# --- mirrors on nodes -----------------------------------------------------------------------


def test_a_node_is_told_to_mirror(single, multi, tmp_path):
    chain = ten_rows()
    single.keep(chain, "kamu/mirrored", Visibility.PUBLIC)
    words = (
        *(tmp_path, "pull", "--mirror", f"odf+{single.url}/mirrored"),
        *(f"odf+{multi.url}/anna/copy", "--token", multi.token("anna"), "--json"),
    )
    told = json.loads(run(*words).stdout)
    assert told["newHead"] == str(chain.head)
    alias = DatasetAlias.parse("anna/copy")
    assert multi.node.stores.dataset(DatasetRef(alias=alias)).head() == chain.head
    assert json.loads(run(*words).stdout)["outcome"] == "up-to-date"
    run(tmp_path, "pull", "--mirror", tmp_path, f"odf+{multi.url}/anna/copy", code=2)
    refreshed = run(
        *(tmp_path, "refresh", f"{multi.url}/anna/copy", "--force"),
        *("--token", multi.token("anna"), "--json"),
    )
    assert json.loads(refreshed.stdout)["outcome"] == "up-to-date"
