"""Code that mixes several hashes at once hashes as `hashlib` does, or is not used."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from types import SimpleNamespace

import pytest
from lanes import kernel

from odf_storage.lanes import kernel as kernels
from odf_storage.lanes.keccak import WORDS, padded, round_constants
from odf_storage.lanes.kernel import Kernel, compiled, is_right, lanes_of


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_code_for_any_number_of_lanes_hashes_as_hashlib_does(lanes: int) -> None:
    made = kernel(lanes)
    assert (made.lanes, is_right(made)) == (lanes, True)


def test_states_stay_as_they_are_where_no_block_is_taken_in() -> None:
    state = (ctypes.c_uint64 * WORDS)(*range(WORDS))
    addresses = (ctypes.c_void_p * 1)(ctypes.addressof(state))
    kernel(1).absorb(addresses, addresses, 0)
    assert list(state) == list(range(WORDS))


def test_constants_of_the_rounds_are_those_of_the_standard() -> None:
    constants = round_constants()
    assert constants[:3] == [1, 0x8082, 0x800000000000808A]
    assert (constants[-1], len(constants)) == (0x8000000080008008, 24)


@pytest.mark.parametrize(("rest", "end"), [(0, b"\x06"), (134, b"\x06\x80"), (135, b"\x86")])
def test_an_end_is_filled_up_to_a_whole_block(rest: int, end: bytes) -> None:
    message = padded(bytes(rest))
    assert (len(message), message[rest : rest + len(end)]) == (136, end)
    assert message[-1] & 0x80


@pytest.mark.parametrize(
    ("features", "lanes"),
    [
        ({"avx512f": True, "avx2": True}, 8),
        ({"avx512f": False, "avx2": True}, 4),
        ({"neon": True, "sha3": True}, 2),
        ({"sse2": True}, 1),
        ({}, 1),
    ],
)
def test_lanes_are_as_many_words_as_the_processor_handles_at_once(
    features: dict[str, bool], lanes: int
) -> None:
    assert lanes_of(features) == lanes


def test_without_llvm_there_is_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    assert compiled() == (None, None)


@pytest.mark.parametrize("failure", [RuntimeError("no target"), OSError("not executable")])
def test_where_no_code_can_be_made_there_is_none(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(lanes: int) -> Kernel:
        raise failure

    monkeypatch.setattr(kernels, "lanes_of", lambda features: 4)
    monkeypatch.setattr(kernels, "kernel", refused)
    assert compiled() == (None, None)


def test_a_process_that_may_not_run_what_it_wrote_goes_on_without() -> None:
    deny = "import ctypes; print(ctypes.CDLL(None).prctl(65, 1, 0, 0, 0))"
    ask = "from odf_storage.lanes.kernel import compiled; print(compiled())"
    ended = subprocess.run(
        [sys.executable, "-c", f"{deny}; {ask}"], capture_output=True, text=True, check=False
    )
    denied, *answer = ended.stdout.split(maxsplit=1)
    if denied != "0":
        pytest.skip("this system cannot deny it (Linux 6.3 and newer can)")
    assert (ended.returncode, *answer) == (0, "(None, None)\n")


def test_code_that_hashes_wrongly_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernel(4)

    def one_block_less(states: object, streams: object, blocks: int) -> None:
        right.absorb(states, streams, blocks - 1)

    wrong = SimpleNamespace(lanes=4, absorb=one_block_less)
    monkeypatch.setattr(kernels, "lanes_of", lambda features: 4)
    monkeypatch.setattr(kernels, "kernel", {1: kernel(1), 4: wrong}.__getitem__)
    assert compiled() == (None, None)
    monkeypatch.setattr(kernels, "kernel", kernel)
    assert compiled() == (kernel(1), right)
