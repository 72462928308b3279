"""Keccak-f[1600] over several states at once: machine code that LLVM compiles for this processor.

A processor adds, shifts and masks two, four or eight 64-bit words with one instruction, but a
single hash can use only one word, because its rounds depend on each other. Several hashes side by
side, one per lane, take little more time than one. No installable library offers that for SHA3-256,
so `keccak_code` describes the permutation over vectors of words, and LLVM compiles it to the
instructions of this processor.

Compiled code is tested first: if its hashes differ from `hashlib`, it is not used.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .keccak import BLOCK_BYTES, WORDS, digest_of, padded

Absorb = Callable[[Any, Any, int], None]
"""Takes the addresses of the states, those of as many streams, and the blocks per stream."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Code that absorbs blocks into `lanes` states at once; several threads may call it."""

    lanes: int
    absorb: Absorb
    owner: object
    """The object that keeps the code in memory."""


def lanes_of(features: Mapping[str, bool]) -> int:
    """Return how many 64-bit words a processor with these features handles at once; 1: no gain."""
    for feature, lanes in (("avx512f", 8), ("avx2", 4), ("sha3", 2)):
        if features.get(feature):
            return lanes
    return 1


def compiled() -> tuple[Kernel, Kernel] | tuple[None, None]:
    """Return code for one stream and for as many streams as there are lanes; None: it has none.

    Takes some tenths of a second.
    """
    try:
        from llvmlite import binding
    except ImportError:
        return None, None
    if not may_be_run():
        return None, None
    try:
        lanes = lanes_of(binding.get_host_cpu_features())
        built = None if lanes == 1 else (kernel(1), kernel(lanes))
    except (RuntimeError, OSError):  # no code for this processor, or code generation is denied
        return None, None
    return built if built is not None and all(map(is_right, built)) else (None, None)


def may_be_run() -> bool:
    """Return whether the system lets a process run code that it wrote to memory. LLVM does not
    check, and a service under `MemoryDenyWriteExecute` (systemd) or SELinux would crash."""
    if sys.platform == "win32":
        return True
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        protect = ctypes.CDLL(None).mprotect
        protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        return bool(protect(start, len(page), mmap.PROT_READ | mmap.PROT_EXEC) == 0)


def kernel(lanes: int) -> Kernel:
    """Compile code for that many lanes. Raises the errors of LLVM if it cannot."""
    from llvmlite import binding

    from . import keccak_code

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
    )
    module = binding.parse_assembly(str(keccak_code.module(lanes)))
    module.verify()
    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    passes = binding.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return Kernel(lanes, kind(engine.get_function_address(keccak_code.NAME)), engine)


def is_right(built: Kernel) -> bool:
    """Test that every lane hashes as `hashlib` does, over several blocks at an odd address."""
    blocks = 3
    texts = [
        bytes((lane + at * 7) % 251 for at in range(blocks * BLOCK_BYTES))
        for lane in range(built.lanes)
    ]
    rooms = [ctypes.create_string_buffer(b"." + padded(text)) for text in texts]
    states = [(ctypes.c_uint64 * WORDS)() for _ in texts]
    addresses = (ctypes.c_void_p * built.lanes)(*map(ctypes.addressof, states))
    streams = (ctypes.c_void_p * built.lanes)(*(ctypes.addressof(room) + 1 for room in rooms))
    built.absorb(addresses, streams, blocks + 1)
    return [digest_of(state) for state in states] == [hashlib.sha3_256(t).digest() for t in texts]
