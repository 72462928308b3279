"""A node as a witness of another one: what it signs and refuses, and what clients make of it."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from refusals import refusing
from servers import free_port, wait_until
from service import Service, seeded, serving

from odf_node.cli.main import main
from odf_node.service.trust.log import LogKeeper
from odf_node.service.trust.witness import Asking, Witness, sender
from odf_protocol.commitments import key_pair
from odf_protocol.trust.checkpoints import AddCheckpoint, LogCheckpoint, Peer
from odf_protocol.trust.merkle import EMPTY_ROOT, consistency_path, leaf_hash, nodes_of, tree_root
from odf_protocol.trust.notes import Note, NoteKey, note_line, signature_lines, signers
from odf_storage.runtime.clock import system_clock

LOG_NAME = "log.example"
LOG = key_pair(b"\x01" * 32)
STRANGER = key_pair(b"\x03" * 32)
SIZE_TYPE = "text/x.tlog.size"


@pytest.fixture
def witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A node that is a witness for the log of these tests."""
    with _witness_for(tmp_path, monkeypatch, str(NoteKey(LOG_NAME, LOG.public))) as one:
        yield one


def _witness_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *vkeys: str, **more: Any) -> Any:
    friends = tmp_path / "friends"
    friends.write_text("".join(f"log {vkey}\n" for vkey in vkeys) + "quorum none\n")
    monkeypatch.setenv("ODF_TRUST_WITNESS_FOR", str(friends))
    return serving(tmp_path / "witness", public_url="https://anna.example/", **more)


@dataclass
class Log:
    """A log of another make, leaf by leaf."""

    leaves: list[bytes] = field(default_factory=list)

    def grown(self, count: int) -> Log:
        return Log([*self.leaves, *(leaf_hash(b"%d" % each) for each in range(count))])

    def note(self, key: Any = LOG, name: str = LOG_NAME) -> Note:
        text = LogCheckpoint(name, len(self.leaves), self.root).text
        return Note(text, (note_line(text, name, key),))

    @property
    def root(self) -> bytes:
        return tree_root(len(self.leaves), nodes_of(self.leaves)) if self.leaves else EMPTY_ROOT

    def body(self, old: int, note: Note | None = None) -> bytes:
        path = consistency_path(old, len(self.leaves), nodes_of(self.leaves))
        return bytes(AddCheckpoint(old, tuple(path), note or self.note()))


def asked(witness: Service, body: bytes) -> httpx.Response:
    with witness.http() as client:
        return client.post("/log/witness/add-checkpoint", content=body)


def key_of(witness: Service) -> NoteKey:
    with witness.http() as client:
        return NoteKey.parse(client.get("/log/witness").json()["key"])


THREE = Log().grown(3)
FIVE = THREE.grown(2)
OTHER = Log([leaf_hash(b"else"), *THREE.leaves[1:]])


def test_a_witness_signs_a_log_that_grows_and_shows_what_it_signed_last(witness):
    key = key_of(witness)
    assert key.name == "anna.example/log/witness"
    for old, log in ((0, THREE), (3, FIVE), (5, FIVE)):
        answer = asked(witness, log.body(old))
        assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (
            200,
            "text/plain",
        )
        note = Note(log.note().text, signature_lines(answer.text))
        (line,) = signers(note, [key]).values()
        assert abs(line.stamp - system_clock().ns / 1e9) < 60
    origin = hashlib.sha256(LOG_NAME.encode()).hexdigest()
    with witness.http() as client:
        shown = client.get(f"/log/witness/{origin}/checkpoint")
        assert client.get(f"/log/witness/{'0' * 64}/checkpoint").status_code == 404
    newest = Note.parse(shown.content)
    assert LogCheckpoint.parse(newest.text).size == 5
    assert len(signers(newest, [key, NoteKey(LOG_NAME, LOG.public)])) == 2


REFUSED: dict[str, tuple[int, Callable[[], bytes]]] = {
    "no request": (400, lambda: b"hello"),
    "a size with a zero before it": (400, lambda: FIVE.body(3).replace(b"old 3", b"old 03")),
    "line ends of another kind": (400, lambda: FIVE.body(3).replace(b"\n", b"\r\n")),
    "an old size beyond the new one": (400, lambda: THREE.body(3).replace(b"old 3", b"old 4")),
    "a log that it does not know": (404, lambda: FIVE.body(3, FIVE.note(name="other.example"))),
    "a log that nobody signed": (403, lambda: FIVE.body(3, FIVE.note(STRANGER))),
    "a signature of another checkpoint": (
        403,
        lambda: FIVE.body(3, Note(FIVE.note().text, THREE.note().lines)),
    ),
    "another beginning": (422, lambda: OTHER.grown(2).body(3)),
    "another log of that size": (422, lambda: OTHER.body(3)),
    "a proof for the same size": (
        422,
        lambda: THREE.body(3).replace(b"old 3\n", b"old 3\n" + b"A" * 43 + b"=\n"),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_witness_refuses(witness, what):
    asked(witness, THREE.body(0))
    status, body = REFUSED[what]
    answer = asked(witness, body())
    assert answer.status_code == status, answer.text
    assert answer.json()["message"]
    assert asked(witness, FIVE.body(3)).status_code == 200, "a refused request changed something"


@pytest.mark.parametrize(
    ("first", "old", "size"), [(None, 3, "0"), (THREE, 0, "3"), (THREE, 2, "3"), (THREE, 4, "3")]
)
def test_a_witness_tells_the_size_that_it_signed_last(witness, first, old, size):
    if first is not None:
        asked(witness, first.body(0))
    answer = asked(witness, FIVE.body(old))
    assert (answer.status_code, answer.text) == (409, f"{size}\n")
    assert answer.headers["content-type"] == SIZE_TYPE


@pytest.mark.parametrize("root", [b"\x07" * 32, EMPTY_ROOT])
def test_an_empty_log_has_one_root(witness, root):
    text = LogCheckpoint(LOG_NAME, 0, root).text
    body = bytes(AddCheckpoint(0, (), Note(text, (note_line(text, LOG_NAME, LOG),))))
    assert asked(witness, body).status_code == (200 if root == EMPTY_ROOT else 422)


def test_a_witness_takes_so_much_and_no_more(witness):
    assert asked(witness, b"x" * 65_537).status_code == 413


def test_a_witness_of_two_logs_remembers_each(tmp_path, monkeypatch):
    other = NoteKey("other.example", STRANGER.public)
    keys = (str(NoteKey(LOG_NAME, LOG.public)), str(other))
    with _witness_for(tmp_path, monkeypatch, *keys, allow_anonymous=False) as witness:
        assert asked(witness, THREE.body(0)).status_code == 200
        note = OTHER.note(STRANGER, other.name)
        assert asked(witness, OTHER.body(0, note)).status_code == 200
    with _witness_for(tmp_path, monkeypatch, *keys) as witness:
        assert asked(witness, FIVE.body(0)).text == "3\n", "after a start it knows what it signed"


def test_a_policy_that_cannot_be_read_ends_the_start(tmp_path, monkeypatch):
    (tmp_path / "policy").write_text("witness anna\n")
    monkeypatch.setenv("ODF_TRUST_WITNESS_FOR", str(tmp_path / "policy"))
    with refusing("MalformedPolicy", match="line 1"), serving(tmp_path / "node") as one:
        one.node.part(Witness)


# --- asking ---------------------------------------------------------------------------------


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


def test_a_head_that_the_witness_of_a_friend_signed_is_confirmed(tmp_path, monkeypatch):
    """The whole way, by the files that commands print."""
    data = tmp_path / "node"
    with serving(data, public_url="https://bert.example/") as log:
        log.keep(seeded())
        with log.http() as client:
            wait_until(lambda: client.get("/log/checkpoint").is_success, "a checkpoint")
        printed = run("trust", "show", log.url)
        assert printed.exit_code == 0, printed.output
    (tmp_path / "bert").write_text(printed.output)
    monkeypatch.setenv("ODF_TRUST_WITNESS_FOR", str(tmp_path / "bert"))
    with serving(tmp_path / "anna", public_url="https://anna.example/") as witness:
        monkeypatch.delenv("ODF_TRUST_WITNESS_FOR")
        printed = run("trust", "show", witness.url)
        assert printed.exit_code == 0, printed.output
        policy = tmp_path / "policy"
        policy.write_text(printed.output)
        monkeypatch.setenv("ODF_TRUST_POLICY", str(policy))
        with serving(data, public_url="https://bert.example/") as log:
            said = _verified(log, policy)
            assert (said["word"], said["exit"]) == ("confirmed", 0)
            log.keep(seeded(), "kamu/more")
            wait_until(lambda: _verified(log, policy)["word"] == "confirmed", "a cosignature")
            with log.http() as client:
                metrics = client.get("/system/metrics").text
            name = "anna.example/log/witness"
            assert f'odf_log_cosignature_age_seconds{{witness="{name}"}}' in metrics
            assert "odf_log_checkpoint_age_seconds" in metrics


def _verified(log: Service, policy: Path) -> dict[str, Any]:
    def asked() -> dict[str, Any]:
        words = ("--metadata-only", "--json", "--policy", str(policy))
        result = run("verify", f"{log.url}/foo", *words)
        said: dict[str, Any] = json.loads(result.output)["log"]
        return said | {"exit": result.exit_code}

    wait_until(lambda: asked()["word"] == "confirmed", "a cosignature")
    return asked()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path / "node", public_url=f"https://{LOG_NAME}/") as one:
        one.keep(seeded())
        one.node.part(LogKeeper).bring_up()
        yield one


def asking(node: Service, witness: Service, url: str = "", **more: Any) -> Asking:
    peer = Peer(key_of(witness), url or f"{witness.url}/log/witness/")
    more = {"heartbeat_s": 300.0, "send": sender(5.0), **more}
    return Asking(node.node.stores.head_log, peer, clock=node.node.clock, **more)


@pytest.fixture
def friend(node: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    key = NoteKey(LOG_NAME, node.node.signing_keys.active.public)
    with _witness_for(tmp_path, monkeypatch, str(key)) as one:
        yield one


def cosigned(node: Service, witness: Service) -> int | None:
    """The time of the witness's signature on the newest checkpoint."""
    key = key_of(witness)
    note = Note.parse(node.node.part(LogKeeper).checkpoint().encode())
    line = signers(note, [key]).get(key)
    return None if line is None else line.stamp


def test_a_node_that_knows_nothing_of_its_witness_learns_the_size(node, friend):
    asking(node, friend).look()
    assert cosigned(node, friend) is not None
    node.keep(seeded(), "kamu/more")
    node.node.part(LogKeeper).bring_up()
    sent = list[bytes]()

    def noting(url: str, body: bytes) -> tuple[int, bytes]:
        sent.append(body)
        return sender(5.0)(url, body)

    asking(node, friend, send=noting).look()
    assert cosigned(node, friend) is not None
    assert [body.split(b"\n")[0] for body in sent] == [b"old 0", b"old 2"]


def test_a_log_that_did_not_change_is_signed_again_after_a_while(node, friend):
    sent = list[bytes]()

    def noting(url: str, body: bytes) -> tuple[int, bytes]:
        sent.append(body)
        return sender(5.0)(url, body)

    one = asking(node, friend, send=noting)
    for _ in range(3):
        one.look()
    assert len(sent) == 1
    asking(node, friend, send=noting, heartbeat_s=0.0).look()
    assert len(sent) == 3  # a follower that knows no size asks twice
    note = Note.parse(node.node.part(LogKeeper).checkpoint().encode())
    assert len(note.lines) == 2, "the newer signature takes the place of the older one"


def test_a_witness_that_is_away_stops_no_commit_and_is_left_alone_for_a_while(node, friend):
    one = asking(node, friend, "http://127.0.0.1:9/log/witness")
    assert one.look() == 5.0
    assert 4.0 < one.look() <= 5.0
    node.keep(seeded(), "kamu/more")
    node.node.part(LogKeeper).bring_up()
    assert cosigned(node, friend) is None


ANSWERS: dict[str, tuple[int, bytes]] = {
    "something else": (200, b"hello"),
    "no signature of its own": (200, str(THREE.note().lines[0]).encode()),
    "a size that is none": (409, b"many\n"),
    "a size beyond the log": (409, b"1000000\n"),
    "one size for ever": (409, b"1\n"),
    "a fault": (500, b""),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_what_a_witness_should_not_answer_changes_nothing(node, friend, what):
    before = node.node.part(LogKeeper).checkpoint()
    assert asking(node, friend, send=lambda _url, _body: ANSWERS[what]).look() == 5.0
    assert node.node.part(LogKeeper).checkpoint() == before


def test_two_witnesses_sign_one_checkpoint(node, friend, tmp_path, monkeypatch):
    """Also if the other one signs while this one is asked."""
    key = NoteKey(LOG_NAME, node.node.signing_keys.active.public)
    (tmp_path / "second").mkdir()
    with _witness_for(tmp_path / "second", monkeypatch, str(key)) as second:

        def late(url: str, body: bytes) -> tuple[int, bytes]:
            answer = sender(5.0)(url, body)
            asking(node, second).look()
            return answer

        asking(node, friend, send=late).look()
        assert None not in (cosigned(node, friend), cosigned(node, second))


PAGE = Path(__file__).parents[2] / "docs" / "trust.md"


def test_friends_are_witnesses_of_each_other_after_the_commands_of_the_page(tmp_path, monkeypatch):
    told = PAGE.read_text().partition("each of you runs:")[2].split("\n\n")[1]
    show, export, serve = (shlex.split(line) for line in told.splitlines())
    assert serve == ["odf-node", "serve", "--data", "/srv/odf"]
    friends = {"anna": "bert", "bert": "anna"}
    ports = {name: free_port() for name in friends}

    def served(name: str) -> Any:
        public = f"https://{name}.example/"
        return serving(tmp_path / name, port=ports[name], public_url=public, poll_s=0.05)

    with served("anna") as anna, served("bert") as bert:
        nodes = {"anna": anna, "bert": bert}
        for name, friend in friends.items():
            nodes[friend].keep(seeded())
            nodes[friend].node.part(LogKeeper).bring_up()
            words = [nodes[friend].url if "://" in each else each for each in show[1:-2]]
            (tmp_path / f"{name}-{show[-1]}").write_text(run(*words).stdout)
    with ExitStack() as running:
        for name in friends:
            for setting in export[1:]:
                variable, _, file = setting.partition("=")
                monkeypatch.setenv(variable, str(tmp_path / f"{name}-{file}"))
            nodes[name] = running.enter_context(served(name))
        for name in friends:
            policy = str(tmp_path / f"{name}-{show[-1]}")
            asked_for = ("verify", f"{nodes[name].url}/foo", "--policy", policy)
            wait_until(lambda words=asked_for: "confirmed" in run(*words).output, "signatures")
