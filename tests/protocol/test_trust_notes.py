"""Signed notes: the bytes of other implementations, and what no reader of notes may take.

The log signs with the seed 32 × 0x01, the witness with 32 × 0x02. The lines were made in Python and
opened by Go's `sumdb/note` 0.43.0 and transparency-dev's `formats/log`.
"""

from __future__ import annotations

import pytest
from refusals import refusing

from odf_protocol.commitments import key_pair
from odf_protocol.trust.checkpoints import AddCheckpoint, LogCheckpoint, LogProof, Policy
from odf_protocol.trust.merkle import leaf_hash, nodes_of, tree_root
from odf_protocol.trust.notes import (
    COSIGNATURE,
    MAX_LINES,
    Note,
    NoteKey,
    SignatureLine,
    cosigned_line,
    note_line,
    signature_lines,
    signers,
)

ORIGIN, WITNESS = "odf.example/ada/weather", "witness.example/w1"
LOG, COSIGNER = key_pair(b"\x01" * 32), key_pair(b"\x02" * 32)
LOG_VKEY = "odf.example/ada/weather+16ecf017+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"
WITNESS_VKEY = "witness.example/w1+9e225179+AYE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU"
COSIGNER_VKEY = "witness.example/w1+df1c0a35+BIE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU"
TEXT = f"{ORIGIN}\n3\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n"
LOG_LINE = (
    "— odf.example/ada/weather FuzwF5Osn3TZ0AA0mFd1H3wvZUNlCg4VRrRlpiLwW8aviZer+7R+VIpDoOHL4hOva"
    "n6PRk77M9M43e4uiOWsQEVclQo=\n"
)
WITNESS_LINE = (
    "— witness.example/w1 3xwKNQAAAABlU/EAUF0fQyxPel6Ku7GizwLLr4AovbLQ+sRlcHUf5asSS4MPwLdBRb+SQec"
    "LGvH1bhwv8mAiO8RB2U4TMS/6Cx85BQ==\n"
)
CHECKPOINT = f"{TEXT}\n{LOG_LINE}{WITNESS_LINE}"
KEY, COSIGNING_KEY = NoteKey.parse(LOG_VKEY), NoteKey.parse(COSIGNER_VKEY)
STRANGER = NoteKey("stranger", key_pair(b"\x03" * 32).public)


def test_keys_have_the_lines_of_other_implementations():
    assert str(NoteKey(ORIGIN, LOG.public)) == LOG_VKEY
    assert str(NoteKey(WITNESS, COSIGNER.public)) == WITNESS_VKEY
    assert str(NoteKey.parse(WITNESS_VKEY).cosigner) == COSIGNER_VKEY
    assert NoteKey.parse(COSIGNER_VKEY).kind == COSIGNATURE


def test_a_checkpoint_with_its_cosignature_has_the_bytes_of_other_implementations():
    leaves = [leaf_hash(each) for each in (b"a", b"b", b"c")]
    checkpoint = LogCheckpoint(ORIGIN, 3, tree_root(3, nodes_of(leaves)))
    assert checkpoint.text == TEXT
    lines = (
        note_line(TEXT, ORIGIN, LOG),
        cosigned_line(TEXT, WITNESS, COSIGNER, 1_700_000_000),
    )
    assert str(Note(TEXT, lines)) == CHECKPOINT
    assert lines[1].stamp == 1_700_000_000
    assert LogCheckpoint.parse(Note.parse(CHECKPOINT.encode()).text) == checkpoint


def test_those_of_the_known_keys_that_signed_are_told():
    note = Note.parse(CHECKPOINT.encode())
    assert set(signers(note, [KEY, COSIGNING_KEY, STRANGER])) == {KEY, COSIGNING_KEY}
    assert signers(note, [STRANGER]) == {}


def test_a_line_of_a_known_key_that_does_not_sign_the_text_refuses_the_whole_note():
    moved = CHECKPOINT.replace("\n3\n", "\n4\n").encode()
    for key in (KEY, COSIGNING_KEY):
        with refusing("SignatureWrong"):
            signers(Note.parse(moved), [key])
    assert signers(Note.parse(moved), [STRANGER]) == {}


def test_a_cosignature_names_its_time_and_cannot_be_moved_to_another():
    line = cosigned_line(TEXT, WITNESS, COSIGNER, 1_700_000_000)
    later = (1_700_000_001).to_bytes(8, "big") + line.signature[8:]
    note = Note(TEXT, (SignatureLine(line.name, line.key_id, later),))
    with refusing("SignatureWrong"):
        signers(note, [COSIGNING_KEY])


def test_of_two_lines_of_one_key_the_first_counts():
    good = note_line(TEXT, ORIGIN, LOG)
    bad = SignatureLine(good.name, good.key_id, bytes(64))
    assert signers(Note(TEXT, (good, bad)), [KEY]) == {KEY: good}
    with refusing("SignatureWrong"):
        signers(Note(TEXT, (bad, good)), [KEY])


def test_the_last_empty_line_ends_the_text():
    text = "one\n\ntwo\n"
    note = Note(text, (note_line(text, ORIGIN, LOG),))
    assert Note.parse(bytes(note)) == note
    assert KEY in signers(note, [KEY])


def test_notes_have_up_to_a_hundred_lines_of_anybody():
    others = "".join(f"— other{n} AAAAAAA=\n" for n in range(MAX_LINES - 1))
    note = Note.parse(f"{TEXT}\n{others}{LOG_LINE}".encode())
    assert set(signers(note, [KEY])) == {KEY}
    with refusing("MalformedNote"):
        Note.parse(f"{TEXT}\n{others}{LOG_LINE}{LOG_LINE}".encode())


BAD_NOTES = {
    "CRLF": CHECKPOINT.replace("\n", "\r\n"),
    "no last line end": CHECKPOINT[:-1],
    "a hyphen for the dash": CHECKPOINT.replace("—", "-"),
    "a tab in the text": CHECKPOINT.replace("weather\n3", "weather\t\n3"),
    "an empty line too many": CHECKPOINT + "\n",
    "no padding": f"{TEXT}\n{LOG_LINE[:-2]}\n",
    "no lines": TEXT + "\n",
    "no text": LOG_LINE,
    "a name with a plus": f"{TEXT}\n{LOG_LINE.replace('ada', 'a+a')}",
    "no name": f"{TEXT}\n— {LOG_LINE.split(' ')[2]}",
    "a line without signature": f"{TEXT}\n— {ORIGIN} \n",
    "a signature of no bytes": f"{TEXT}\n— {ORIGIN} FuzwFw==\n",
}


@pytest.mark.parametrize("text", BAD_NOTES.values(), ids=BAD_NOTES)
def test_what_is_no_note_is_refused(text: str):
    with refusing("MalformedNote"):
        Note.parse(text.encode())


def test_notes_that_are_no_utf8_or_too_long_are_refused():
    for raw in (b"\xff" + CHECKPOINT.encode(), b"a" * 1_000_001 + CHECKPOINT.encode()):
        with refusing("MalformedNote"):
            Note.parse(raw)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        LOG_VKEY.replace("16ecf017", "16ecf018"),
        LOG_VKEY.replace("16ecf017", "16ECF017"),
        LOG_VKEY.replace("weather", "wea ther"),
        LOG_VKEY[:-1],
        "log+00000000+AQ==",
        f"{WITNESS}+{'0' * 8}+BoE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU",
    ],
)
def test_what_is_no_key_of_ours_is_refused(text: str):
    with refusing("MalformedNoteKey"):
        NoteKey.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "log\n3\n",
        "log\n03\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n",
        "log\n-3\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n",
        "log\n9223372036854775808\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n",
        "log\n3\nNmQu\n",
        "log\n3\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n\n",
        "\n3\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str):
    with refusing("MalformedNote"):
        LogCheckpoint.parse(text)


def test_a_checkpoint_keeps_its_extensions():
    checkpoint = LogCheckpoint("log", 0, bytes(32), ("one", "two"))
    assert LogCheckpoint.parse(checkpoint.text) == checkpoint


ZEROS = "A" * 43 + "=\n"
"""A hash, as a line of a path."""


def test_proofs_and_requests_to_witnesses_are_read_as_they_are_written():
    note, path = Note.parse(CHECKPOINT.encode()), (bytes(32), b"\x01" * 32)
    for proof in (LogProof(2, path, note), LogProof(0, (), note, b"more")):
        assert LogProof.parse(str(proof).encode()) == proof
    for request in (AddCheckpoint(0, (), note), AddCheckpoint(2, path, note)):
        assert AddCheckpoint.parse(bytes(request)) == request
    assert str(LogProof(2, path[:1], note)) == (
        f"c2sp.org/tlog-proof@v1\nindex 2\n{ZEROS}\n{CHECKPOINT}"
    )


@pytest.mark.parametrize(
    "head",
    [
        "old 03\n",
        "old -1\n",
        "new 3\n",
        "old 3\nAAAA\n",
        f"old 3\n{('A' * 43 + '=' + chr(10)) * 64}",
    ],
)
def test_requests_to_witnesses_of_another_form_are_refused(head: str):
    with refusing("MalformedNote"):
        AddCheckpoint.parse(f"{head}\n{CHECKPOINT}".encode())


@pytest.mark.parametrize(
    "head", ["", "index 1\n", "c2sp.org/tlog-proof@v1\n", "c2sp.org/tlog-proof@v1\nindex 01\n"]
)
def test_proofs_of_another_form_are_refused(head: str):
    with refusing("MalformedNote"):
        LogProof.parse(f"{head}\n{CHECKPOINT}".encode())


def test_the_answer_of_a_witness_is_lines():
    assert [line.name for line in signature_lines(WITNESS_LINE * 2)] == [WITNESS, WITNESS]
    with refusing("MalformedNote"):
        signature_lines("")


POLICY = f"""# whom we trust
log {LOG_VKEY} https://odf.example/
witness w1 {WITNESS_VKEY}\thttps://witness.example/  # a friend
witness w2 {STRANGER!s}
group both all w1 w2
group some 1 both w1
quorum some
"""


def test_a_policy_says_whose_cosignatures_are_enough():
    policy = Policy.parse(POLICY.encode())
    assert policy.logs[0].key == KEY
    assert dict(policy.witnesses)["w1"].url == "https://witness.example/"
    assert policy.is_met([COSIGNING_KEY])
    assert not policy.is_met([STRANGER.cosigner])
    both = Policy.parse(POLICY.replace("quorum some", "quorum both").encode())
    assert not both.is_met([COSIGNING_KEY])
    assert both.is_met([COSIGNING_KEY, STRANGER.cosigner])
    assert Policy.parse(b"quorum none\n").is_met([])


@pytest.mark.parametrize(
    "line",
    [
        "quorum w1\nquorum w1",
        "quorum w9",
        "",
        "group g 3 w1 w2\nquorum g",
        "group g any w9\nquorum g",
        "group g any\nquorum g",
        "group g 2 w1 w1\nquorum g",
        "group w1 any w2\nquorum w1",
        "witness none x\nquorum none",
        "witness w3\nquorum none",
        "what is this\nquorum none",
    ],
)
def test_a_policy_that_says_nothing_clear_is_refused(line: str):
    witnesses = f"witness w1 {WITNESS_VKEY}\nwitness w2 {STRANGER}\n"
    with refusing("MalformedPolicy"):
        Policy.parse(f"{witnesses}{line}\n".encode())


def test_a_policy_names_the_line_that_is_wrong():
    with refusing("MalformedPolicy", match="line 2"):
        Policy.parse(b"# mine\nwitness w1 key\nquorum w1\n")
