"""Our classes may be met by many threads at once."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from odf_protocol.typed import decode_json

MEETING = """
import sys, threading
import msgspec
from odf_protocol.typed import convert, decode_json

sys.setswitchinterval(1e-6)
CLASSES, THREADS = 300, 6
made = "class A{0}(msgspec.Struct):\\n  a: int\\n  b: 'B{0}|None' = None\\n"
made += "class B{0}(msgspec.Struct):\\n  c: 'list[int]|None' = None\\n  d: 'A{0}|None' = None\\n"
for number in range(CLASSES):
    exec(made.format(number))
kinds = [globals()[f"A{number}"] for number in range(CLASSES)]
barrier = threading.Barrier(THREADS)
right = []

def meet(thread):
    for number, kind in enumerate(kinds):
        barrier.wait()
        if (number + thread) % 2:
            value = convert({"a": number, "b": {"c": [1]}}, kind)
        else:
            value = decode_json('{"a": %d, "b": {"c": [1]}}' % number, kind)
        right.append(value.a == number and value.b.c == [1])

threads = [threading.Thread(target=meet, args=(number,)) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(0 if len(right) == CLASSES * THREADS and all(right) else 1)
"""


def test_classes_that_many_threads_meet_at_once_do_not_end_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", MEETING], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_what_nests_too_deeply_cannot_be_decoded():
    for kind in (object, dict):
        with pytest.raises(msgspec.DecodeError, match="deeply"):
            decode_json('{"x":' + "[" * 100_000, kind)
