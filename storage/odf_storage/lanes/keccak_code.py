"""Keccak-f[1600] as LLVM code: the steps of its definition, each over vectors of words.

Each lane of a vector belongs to one hash. Rows are computed one after the other, as χ needs them,
so that few vectors are live at a time: processors have only 16 or 32 vector registers.

Source: FIPS 202, sections 3.2 (θ, ρ, π, χ, ι) and 4 (sponge).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from .keccak import BLOCK_BYTES, ROTATIONS, ROUNDS, WORDS, round_constants

NAME = "absorb"
_ROUNDS_A_TURN = 2
"""Rounds per loop iteration. Unrolled rounds need not move words back to their positions."""
_BLOCK_WORDS = BLOCK_BYTES // 8
_WORD = ir.IntType(64)
_ADDRESS = _WORD.as_pointer()

Build = Any
"""Appends instructions to a basic block (`ir.IRBuilder`)."""


def module(lanes: int) -> Any:
    """Return a module with `absorb(states, streams, blocks)`: addresses of states and of streams,
    one of each per lane, and the number of blocks to absorb from each stream."""
    return _Code(lanes).module


def _number(value: int) -> Any:
    return ir.Constant(_WORD, value)


class _Code:
    """A module under construction."""

    def __init__(self, lanes: int) -> None:
        self.module = ir.Module()
        self._lanes = lanes
        self._vector = ir.VectorType(_WORD, lanes)
        self._turn = ir.Function(
            self.module,
            ir.FunctionType(self._vector, [self._vector] * 3),
            f"llvm.fshl.v{lanes}i64",
        )
        self._constants = ir.GlobalVariable(
            self.module, ir.ArrayType(_WORD, ROUNDS), "round_constants"
        )
        self._constants.initializer = ir.Constant(self._constants.value_type, round_constants())
        self._constants.global_constant = True
        self._absorb()

    def _absorb(self) -> None:
        """Emit code that loads the states, absorbs block after block, and stores the states."""
        kind = ir.FunctionType(ir.VoidType(), [_ADDRESS.as_pointer(), _ADDRESS.as_pointer(), _WORD])
        function = ir.Function(self.module, kind, NAME)
        states, streams, blocks = function.args
        entry, block, rounds, behind, keep, end = (
            function.append_basic_block(name)
            for name in ("entry", "block", "rounds", "behind", "keep", "end")
        )

        build = ir.IRBuilder(entry)
        state_of, stream_of = self._addresses(build, states), self._addresses(build, streams)
        begun = [self._gathered(build, state_of, _number(index)) for index in range(WORDS)]
        size = build.mul(blocks, _number(_BLOCK_WORDS))
        build.cbranch(build.icmp_signed(">", blocks, _number(0)), block, end)

        build.position_at_end(block)
        at, words = build.phi(_WORD), self._phis(build)
        absorbed = list(words)
        for index in range(_BLOCK_WORDS):
            content = self._gathered(build, stream_of, build.add(at, _number(index)))
            absorbed[index] = build.xor(absorbed[index], content)
        build.branch(rounds)

        build.position_at_end(rounds)
        done, mixed = build.phi(_WORD), self._phis(build)
        result = mixed
        for ahead in range(_ROUNDS_A_TURN):
            result = self._round(build, result, build.add(done, _number(ahead)))
        more = build.add(done, _number(_ROUNDS_A_TURN))
        build.cbranch(build.icmp_unsigned("<", more, _number(ROUNDS)), rounds, behind)

        build.position_at_end(behind)
        further = build.add(at, _number(_BLOCK_WORDS))
        build.cbranch(build.icmp_unsigned("<", further, size), block, keep)

        build.position_at_end(keep)
        for index, value in enumerate(result):
            self._scatter(build, value, state_of, _number(index))
        build.branch(end)
        build.position_at_end(end)
        build.ret_void()

        _join([at, *words], entry, [_number(0), *begun], behind, [further, *result])
        _join([done, *mixed], block, [_number(0), *absorbed], rounds, [more, *result])

    def _round(self, build: Build, words: list[Any], number: Any) -> list[Any]:
        columns = words[:5]
        for index in range(5, WORDS):
            columns[index % 5] = build.xor(columns[index % 5], words[index])
        theta = [
            build.xor(columns[(x + 4) % 5], self._turned(build, columns[(x + 1) % 5], 1))
            for x in range(5)
        ]
        ones = self._everywhere(2**64 - 1)
        result: list[Any] = []
        for y in range(5):
            row = []
            for x in range(5):
                source = (x + 3 * y) % 5 + 5 * x  # the index from which π takes the word
                mixed = build.xor(words[source], theta[source % 5])
                row.append(self._turned(build, mixed, ROTATIONS[source]))
            for x in range(5):
                others = build.and_(build.xor(row[(x + 1) % 5], ones), row[(x + 2) % 5])
                result.append(build.xor(row[x], others))
        constant = build.gep(self._constants, [_number(0), number])
        iota = self._gathered(build, [constant] * self._lanes, _number(0))
        return [build.xor(result[0], iota), *result[1:]]

    def _turned(self, build: Build, value: Any, bits: int) -> Any:
        return build.call(self._turn, [value, value, self._everywhere(bits)]) if bits else value

    def _everywhere(self, value: int) -> Any:
        return ir.Constant(self._vector, [value] * self._lanes)

    def _phis(self, build: Build) -> list[Any]:
        return [build.phi(self._vector) for _ in range(WORDS)]

    def _addresses(self, build: Build, table: Any) -> list[Any]:
        return [build.load(build.gep(table, [_number(lane)])) for lane in range(self._lanes)]

    def _gathered(self, build: Build, addresses: Sequence[Any], at: Any) -> Any:
        """Emit a load of the word at index `at` for each lane."""
        value = ir.Constant(self._vector, ir.Undefined)
        for lane, start in enumerate(addresses):
            found = build.load(build.gep(start, [at]), align=1)
            value = build.insert_element(value, found, _number(lane))
        return value

    def _scatter(self, build: Build, value: Any, addresses: Sequence[Any], at: Any) -> None:
        for lane, start in enumerate(addresses):
            found = build.extract_element(value, _number(lane))
            build.store(found, build.gep(start, [at]), align=1)


def _join(phis: list[Any], first: Any, begun: list[Any], again: Any, later: list[Any]) -> None:
    """Set the values of variables for the first pass through a basic block and for later ones."""
    for phi, value, next_value in zip(phis, begun, later, strict=True):
        phi.add_incoming(value, first)
        phi.add_incoming(next_value, again)
