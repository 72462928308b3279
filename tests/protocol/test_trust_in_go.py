"""Our notes and proofs before the libraries that others use, and theirs before us.

Go's `sumdb/note`, and `formats` and `merkle` of transparency-dev. Skipped where there is no Go, or
where its modules cannot be fetched.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.protocol.test_trust_notes import (
    BAD_NOTES,
    CHECKPOINT,
    COSIGNER_VKEY,
    KEY,
    LOG,
    LOG_VKEY,
    ORIGIN,
    TEXT,
    WITNESS,
)

from odf_protocol.trust.merkle import (
    consistency_path,
    inclusion_path,
    leaf_hash,
    nodes_of,
    tree_root,
)
from odf_protocol.trust.notes import Note, NoteKey, note_line, signers

SOURCE = Path(__file__).parents[1] / "support" / "go_notes"
LEAVES = [leaf_hash(n.to_bytes(2, "big")) for n in range(300)]
NODES = nodes_of(LEAVES)


class Go:
    """The program, which answers many questions in one run."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def ask(self, *questions: dict[str, Any]) -> list[dict[str, Any]]:
        text = json.dumps(questions)
        run = subprocess.run(
            [self._program], input=text, capture_output=True, text=True, check=True
        )
        answers: list[dict[str, Any]] = json.loads(run.stdout)
        return answers


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Go:
    if shutil.which("go") is None:
        pytest.skip("there is no Go here")
    program = tmp_path_factory.mktemp("go") / "notes"
    built = subprocess.run(
        ["go", "build", "-o", program, "."], cwd=SOURCE, capture_output=True, text=True
    )
    if built.returncode:
        pytest.skip(f"Go does not build it: {built.stderr[-300:]}")
    return Go(program)


def test_go_opens_our_notes_and_finds_both_signatures(go: Go):
    (said,) = go.ask(
        {"ask": "open", "note": CHECKPOINT, "keys": [LOG_VKEY], "cosigners": [COSIGNER_VKEY]}
    )
    assert said == {"said": {"text": TEXT, "names": [ORIGIN, WITNESS]}}


def test_go_takes_a_note_of_any_text_and_refuses_what_we_refuse(go: Go):
    texts = ["one\n", "one\n\ntwo\n", "ö – 一\n", "\n", "\n\n", "\x7f\n", "\u2028 \u0085\n"]
    notes = [str(Note(text, (note_line(text, ORIGIN, LOG),))) for text in texts]
    asked = [
        {"ask": "open", "note": one, "keys": [LOG_VKEY]} for one in (*notes, *BAD_NOTES.values())
    ]
    answers = go.ask(*asked)
    assert [answer["said"]["text"] for answer in answers[: len(texts)]] == texts
    assert all("error" in answer for answer in answers[len(texts) :])


def test_we_open_notes_and_cosignatures_of_go(go: Go):
    secret = f"PRIVATE+KEY+{ORIGIN}+{KEY.id.hex()}+{_text(bytes([1]) + LOG.seed)}"
    signed, cosigned = go.ask(
        {"ask": "sign", "secret": secret, "text": TEXT},
        {"ask": "cosign", "secret": secret, "text": TEXT},
    )
    assert signed["said"] == str(Note(TEXT, (note_line(TEXT, ORIGIN, LOG),)))
    cosigner = NoteKey(ORIGIN, LOG.public).cosigner
    (line,) = signers(Note.parse(cosigned["said"].encode()), [cosigner]).values()
    assert line.stamp > 1_700_000_000


def test_go_takes_our_proofs_and_no_altered_one(go: Go):
    asked, expected = list[dict[str, Any]](), list[bool]()
    for size in (1, 2, 3, 7, 8, 255, 256, 257, 300):
        root = _text(tree_root(size, NODES))
        for index in {0, size // 2, size - 1}:
            path = list(map(_text, inclusion_path(index, size, NODES)))
            one = {"ask": "inclusion", "index": index, "size": size, "root": root, "path": path}
            asked += [one | {"leaf": _text(LEAVES[index])}, one | {"leaf": _text(bytes(32))}]
            expected += [True, False]
        for old in {1, size // 2, size - 1, size} - {0}:
            path = list(map(_text, consistency_path(old, size, NODES)))
            one = {"ask": "consistency", "old": old, "size": size, "root": root, "path": path}
            asked += [
                one | {"oldRoot": _text(tree_root(old, NODES))},
                one | {"oldRoot": _text(bytes(32))},
            ]
            expected += [True, False]
    assert ["said" in answer for answer in go.ask(*asked)] == expected


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
