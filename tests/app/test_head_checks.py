"""What commands say of a head that a node shows them, and what they remember of its log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from refusals import refusing
from servers import wait_until
from service import SCHEMA, Chain, Service, seeded, serving
from static_files import static_files

import odf_node
from odf_node.cli.main import main
from odf_node.client.proofs import trust as client_trust
from odf_node.client.proofs.trust import KnownLog, LogMemory, is_another
from odf_node.service.trust.log import LogKeeper
from odf_node.service.trust.routes import LogRunner
from odf_protocol.commitments import key_pair
from odf_protocol.metadata.events import SetDataSchema
from odf_protocol.trust.notes import Note, NoteKey, cosigned_line
from odf_storage.stores.ports.values import Visibility

WITNESS = key_pair(b"\x02" * 32)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A node whose log takes in heads when somebody asks for one that it has not: no thread signs
    between two steps of a test, nor writes down what a test takes away."""
    monkeypatch.setattr(LogRunner, "look", lambda _: 3600.0)
    with serving(tmp_path / "node") as one:
        yield one


@pytest.fixture
def chain(service: Service) -> Chain:
    chain = seeded().add(SetDataSchema(schema=SCHEMA))
    service.keep(chain)
    service.extend(chain, 3)
    return chain


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


def verified(service: Service, *words: str, name: str = "foo") -> dict[str, Any]:
    result = run("verify", f"{service.url}/{name}", "--metadata-only", "--json", *words)
    said: dict[str, Any] = json.loads(result.output)["log"] | {"exit": result.exit_code}
    return said


def restored(service: Service) -> None:
    """Make the log begin anew, as on a node whose folder and database were put back together."""
    with service.node.stores.engine.begin() as db:
        for table in ("log_states", "log_leaves", "log_tiles", "logged_heads", "unlogged_heads"):
            db.exec_driver_sql(f"DELETE FROM {table}")
    service.node.stores.projections.delete(["log/checkpoint"])


def test_a_verified_head_is_in_the_log_and_the_log_is_remembered(service, chain):
    assert verified(service)["word"] == "unwitnessed"
    service.extend(chain, 2)
    said = verified(service)
    assert (said["word"], said["exit"]) == ("unwitnessed", 0)
    ((node, log),) = LogMemory().all().items()
    assert node == f"{service.url}/"
    assert NoteKey.parse(log.key).public == service.node.signing_keys.active.public
    assert f"{node} {log.key}" in run("trust", "list").output


def test_a_pull_says_what_the_log_says(service, chain, tmp_path):
    folder = str(tmp_path / "copy")
    result = run("pull", f"odf+{service.url}/foo", folder)
    assert result.exit_code == 0, result.output
    assert "log of heads: unwitnessed" in result.output
    service.extend(chain, 1)
    said = json.loads(run("pull", folder, "--json").output)
    assert said["log"]["word"] == "unwitnessed"


def test_programs_check_the_log_as_commands_do_and_read_the_same_word(service, chain, tmp_path):
    data = odf_node.open(f"{service.url}/foo", verify=True)
    assert data.checked is None
    assert data.arrow().num_rows == 3
    assert data.checked.verdict.word == "unwitnessed"
    assert odf_node.pull(f"{service.url}/foo", tmp_path / "copy").outcome == "updated"
    assert odf_node.verify(f"{service.url}/foo").ok
    assert odf_node.open(f"{service.url}/foo").checked is None
    for number in range(3):
        service.keep(seeded(), f"kamu/d{number}")
    assert verified(service)["word"] == "unwitnessed"
    restored(service)
    for looks in (
        data.arrow,
        data.verify,
        partial(odf_node.pull, f"{service.url}/foo", tmp_path / "copy"),
        partial(odf_node.verify, f"{service.url}/foo"),
    ):
        with refusing("LogContradicted", match="rolled back|split view"):
            looks()
    assert odf_node.open(f"{service.url}/foo", verify=True, at=str(chain.head)).arrow().num_rows


def test_programs_ask_for_news_and_for_witnesses(service, chain, tmp_path):
    policy = tmp_path / "policy"
    key = NoteKey("witness.example/w1", WITNESS.public).cosigner
    policy.write_text(f"witness w1 {key}\nquorum w1\n")
    url = f"{service.url}/foo"
    with refusing("LogContradicted", match="unwitnessed"):
        odf_node.open(url, verify=True, policy=policy).arrow()
    with refusing("LogContradicted", match="unwitnessed"):
        odf_node.pull(url, tmp_path / "copy", policy=policy)
    assert odf_node.open(url, verify=True, fresh="1h").arrow().num_rows == 3


def test_private_datasets_are_checked_by_those_who_may_read_them(service):
    service.keep(seeded(), "kamu/own", visibility=Visibility.PRIVATE)
    assert verified(service, "--token", service.token(), name="own")["word"] == "unwitnessed"


def test_a_log_that_became_smaller_is_named_and_written_down(service, chain, home):
    for number in range(3):
        service.keep(seeded(), f"kamu/d{number}")
    verified(service)
    restored(service)
    said = verified(service)
    assert (said["word"], said["exit"]) == ("rolled back", 6)
    shown = run("evidence", said["evidence"])
    assert "both signed by" in shown.output
    assert shown.exit_code == 0
    assert run("trust", "forget", service.url).exit_code == 0
    assert verified(service)["word"] == "unwitnessed"
    assert Path(said["evidence"]).parent.parent == home


def test_a_log_that_does_not_continue_the_one_seen_is_a_split_view(service, chain):
    verified(service)
    restored(service)
    for number in range(5):
        service.keep(seeded(), f"kamu/d{number}")
    said = verified(service)
    assert (said["word"], said["exit"]) == ("split view", 6)


def test_two_logs_of_one_size_under_one_key_prove_a_lie_to_anybody(service, chain):
    log = service.node.part(LogKeeper)
    verified(service)
    size = service.node.stores.head_log.state().size
    restored(service)
    log.begin()
    log.bring_up()
    number = 0
    while service.node.stores.head_log.state().size < size:
        service.keep(seeded(), f"kamu/d{number}")
        log.bring_up()
        number += 1
    said = verified(service)
    assert said["word"] == "split view"
    shown = run("evidence", said["evidence"], "--json")
    assert shown.exit_code == 6
    assert f"two different logs of {size} leaves" in json.loads(shown.output)["proven"]


def test_evidence_that_was_altered_is_refused(service, chain):
    verified(service)
    restored(service)
    for number in range(5):
        service.keep(seeded(), f"kamu/d{number}")
    path = Path(verified(service)["evidence"])
    written = json.loads(path.read_text())
    written["against"] = written["against"].replace("\n4\n", "\n5\n").replace("\n3\n", "\n9\n")
    path.write_text(json.dumps(written))
    result = run("evidence", str(path))
    assert result.exit_code not in (0, 6)
    assert "does not sign" in result.output


def test_a_node_with_another_key_is_refused_until_the_old_one_is_forgotten(
    service, chain, tmp_path
):
    verified(service)
    (node,) = LogMemory().all()
    log = LogMemory().all()[node]
    key = NoteKey.parse(log.key)
    LogMemory().keep(node, type(log)(key=str(NoteKey(key.name, WITNESS.public))))
    result = run("verify", f"{service.url}/foo", "--metadata-only")
    assert result.exit_code != 0
    assert "trust forget" in result.output
    run("trust", "forget", node)
    assert verified(service)["word"] == "unwitnessed"


def test_a_node_that_stops_showing_its_log_is_refused(service, chain):
    verified(service)
    state = service.node.stores.head_log.state()
    restored(service)
    service.node.stores.projections.put("log/checkpoint", [state.checkpoint.encode()])
    result = run("verify", f"{service.url}/foo", "--metadata-only")
    assert result.exit_code == 6
    assert "showed a log of heads before" in result.output


@pytest.mark.parametrize(
    ("origin", "word"), [("unnamed.invalid/8a88e3dd7409f195", "unlogged"), ("odf.example", None)]
)
def test_a_server_without_a_log_in_the_place_of_a_node_is_refused_if_that_had_a_name(
    tmp_path, origin, word
):
    folder = tmp_path / "files" / "foo"
    chain = seeded()
    with serving(tmp_path / "node") as service:
        service.keep(chain)
        odf_node.pull(f"{service.url}/foo", folder)
    with static_files(tmp_path / "files") as served:
        url = served.url.rstrip("/")
        LogMemory().keep(f"{url}/", KnownLog(key=str(NoteKey(origin, WITNESS.public))))
        result = run("verify", f"{url}/foo", "--json")
    if word is None:
        assert "LogGone" in result.output
    else:
        assert json.loads(result.output)["log"]["word"] == word


@pytest.mark.parametrize("public_url", ["https://odf.example/", None])
def test_a_node_that_is_made_anew_on_this_machine_is_refused_only_if_it_has_a_name(
    tmp_path, public_url
):
    folder, port = str(tmp_path / "copy"), 0
    for name in ("first", "second"):
        given = {"port": port, "public_url": public_url, "log_rest_s": 0.0}
        with serving(tmp_path / name, **given) as service:
            service.keep(seeded())
            port = int(service.url.rpartition(":")[2])
            result = run("pull", f"{service.url}/foo", f"{folder}-{name}")
            verifies = run("verify", f"{service.url}/foo", "--metadata-only")
            followed = run("monitor", service.url)
            key = service.node.signing_keys.active.public
    if public_url is None:
        assert "log of heads: unwitnessed" in result.output
        assert "another node than before answers" in result.output
        assert (verifies.exit_code, followed.exit_code) == (0, 0)
        assert NoteKey.parse(LogMemory().all()[f"{service.url}/"].key).public == key
    else:
        assert "trust forget" in verifies.output
        assert 0 not in (result.exit_code, verifies.exit_code, followed.exit_code)


def test_an_unnamed_log_under_its_name_is_not_taken_from_another_key(service, chain):
    verified(service)
    ((node, log),) = LogMemory().all().items()
    origin = NoteKey.parse(log.key).name
    forged = type(log)(key=str(NoteKey(origin, WITNESS.public)))
    LogMemory().keep(node, forged)
    assert "trust forget" in run("verify", f"{service.url}/foo", "--metadata-only").output
    LogMemory().keep("http://192.0.2.1/", forged)
    other = Note.parse(service.node.part(LogKeeper).checkpoint().encode())
    assert not is_another("http://192.0.2.1/", forged, other)


def test_what_is_older_than_asked_for_is_stale(service, chain):
    assert verified(service, "--fresh", "1h")["word"] == "unwitnessed"
    wait_until(lambda: verified(service, "--fresh", "1s")["word"] == "stale", "old age")
    assert verified(service, "--fresh", "1s")["exit"] == 6


def cosign(service: Service) -> None:
    log = service.node.stores.head_log
    state = log.state()
    note = Note.parse(state.checkpoint.encode())
    line = cosigned_line(note.text, "witness", WITNESS, 1_800_000_000)
    more = str(Note(note.text, (*note.lines, line)))
    log.cosigned(state.checkpoint, more, by="witness", at_s=line.stamp)


@pytest.fixture
def policy(tmp_path: Path) -> str:
    (tmp_path / "policy").write_text(
        f"witness w1 {NoteKey('witness', WITNESS.public)}\nquorum w1\n"
    )
    return str(tmp_path / "policy")


def test_a_policy_asks_for_witnesses(service, chain, policy):
    said = verified(service, "--policy", policy)
    assert (said["word"], said["exit"]) == ("unwitnessed", 6)
    cosign(service)
    said = verified(service, "--policy", policy)
    assert (said["word"], said["exit"]) == ("confirmed", 0)


def test_a_head_that_just_moved_waits_for_the_signatures_of_its_witnesses(
    service, chain, policy, monkeypatch
):
    looks = []

    def signed_meanwhile(seconds: float) -> None:
        looks.append(seconds)
        cosign(service)

    verified(service)  # signed by the log
    told = SimpleNamespace(monotonic=time.monotonic, sleep=signed_meanwhile)
    monkeypatch.setattr(client_trust, "time", told)
    assert verified(service, "--policy", policy)["word"] == "confirmed"
    assert len(looks) == 1


def test_a_folder_has_no_log(service, chain, tmp_path):
    folder = str(tmp_path / "copy")
    run("pull", f"odf+{service.url}/foo", folder)
    assert "log of heads" not in run("verify", folder).output


def test_a_home_that_cannot_be_written_stops_no_pull(service, chain, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ODF_NODE_CONFIG", str(tmp_path / "file" / "home"))
    result = run("pull", f"odf+{service.url}/foo", str(tmp_path / "copy"))
    assert result.exit_code == 0, result.output
    assert "log of heads: unwitnessed" in result.output
