"""The probe's machine code, executed instruction by instruction in an emulator.

For AArch64 this is where it has run so far. The emulator has no vectors beyond SSE2 on x86-64: the
wider ones run for real, in `test_team`.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from gemmgrid.measure.probe import code_aarch64, code_x86_64

CODE, WORDS, ARRAYS, STACK, DONE = (0x100000 * i for i in range(1, 6))
SIZE = 0x10000
LINE = WORDS + 0x100


class Machine:
    """A processor that calls one loop as ctypes does; registers it must keep are compared."""

    def __init__(self, processor: str) -> None:
        import unicorn
        from unicorn import arm64_const as arm
        from unicorn import x86_const as x86

        self.x86 = processor == "x86_64"
        self.code = code_x86_64 if self.x86 else code_aarch64
        if self.x86:
            self.machine = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
            names = ["RDI", "RSI", "RDX", "RCX", "R8", "R9"]
            self.given = [getattr(x86, f"UC_X86_REG_{name}") for name in names]
            names = ["RBX", "RBP", "R12", "R13", "R14", "R15"]
            self.kept = [getattr(x86, f"UC_X86_REG_{name}") for name in names]
            self.result, self.stack = x86.UC_X86_REG_RAX, x86.UC_X86_REG_RSP
            self.sums = [x86.UC_X86_REG_XMM0 + i for i in range(2, 16)]
            self.totals = [x86.UC_X86_REG_XMM0 + i for i in range(8)]
        else:
            self.machine = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
            self.given = [arm.UC_ARM64_REG_X0 + i for i in range(6)]
            self.kept = [arm.UC_ARM64_REG_X0 + i for i in range(18, 29)]
            self.kept += [arm.UC_ARM64_REG_D8 + i for i in range(8)]
            self.result, self.stack = arm.UC_ARM64_REG_X0, arm.UC_ARM64_REG_SP
            self.link = arm.UC_ARM64_REG_X30
            self.sums = [arm.UC_ARM64_REG_Q0 + i for i in (*range(8), *range(16, 28))]
            self.totals = [arm.UC_ARM64_REG_Q0 + i for i in range(8)]
        for start in (CODE, WORDS, ARRAYS, STACK, DONE):
            self.machine.mem_map(start, SIZE)
        self.vectors = "sse2" if self.x86 else "neon"

    def call(self, loop: str, *arguments: int) -> int:
        self.machine.mem_write(CODE, self.code.loops(self.vectors)[loop])
        for register, value in zip(self.given, arguments, strict=False):
            self.machine.reg_write(register, value)
        for i, register in enumerate(self.kept):
            self.machine.reg_write(register, 1000 + i)
        top = STACK + SIZE // 2
        self.machine.reg_write(self.stack, top)
        if self.x86:
            self.put(top, DONE)
        else:
            self.machine.reg_write(self.link, DONE)
        self.machine.emu_start(CODE, DONE, timeout=20_000_000)
        assert [self.machine.reg_read(one) for one in self.kept] == [
            1000 + i for i in range(len(self.kept))
        ]
        return int(self.machine.reg_read(self.result))

    def put(self, address: int, value: int) -> None:
        self.machine.mem_write(address, struct.pack("<Q", value))

    def word(self, address: int) -> int:
        return int(struct.unpack("<Q", bytes(self.machine.mem_read(address, 8)))[0])

    def vector(self, register: int, dtype: str) -> tuple[float, ...]:
        letter = {"float32": "f", "float64": "d"}[dtype]
        content = self.machine.reg_read(register).to_bytes(16, "little")
        return struct.unpack(f"<{16 // struct.calcsize(letter)}{letter}", content)


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> Machine:
    return Machine(request.param)


def test_the_counter_of_ticks_goes_on(machine):
    first = machine.call("ticks")
    machine.call("float32", WORDS, 1, 100_000, 1)
    assert machine.call("ticks") > first > 0


def test_a_loop_starts_when_all_have_arrived(machine):
    machine.put(WORDS, 2)
    assert machine.call("float32", WORDS, 3, 1000, 1) > 0
    assert machine.word(WORDS) == 3


def test_a_loop_gives_up_where_others_do_not_come(machine):
    assert machine.call("bounce", WORDS, 2, 5, 100, LINE, 0) == 0
    assert machine.word(WORDS) == 1
    assert machine.word(LINE) == 0


@pytest.mark.parametrize("second", [0, 1])
def test_a_trip_is_an_answer_to_each_value(machine, second):
    import unicorn

    seen = []

    def answer(_uc: Any, _kind: int, address: int, _size: int, value: int, _data: Any) -> None:
        seen.append(value)

    machine.machine.hook_add(unicorn.UC_HOOK_MEM_WRITE, answer, begin=LINE, end=LINE + 7)

    def partner(_uc: Any, _kind: int, address: int, *_: Any) -> None:
        # The other side answers each value between two looks at the line.
        expected = 2 * len(seen) + second
        machine.put(LINE, expected)

    machine.machine.hook_add(unicorn.UC_HOOK_MEM_READ, partner, begin=LINE, end=LINE + 7)
    assert machine.call("bounce", WORDS, 1, 50, 1, LINE, second) > 0
    assert seen == [2 * i + 1 + second for i in range(50)]


def test_a_trip_without_an_answer_ends(machine):
    machine.call("bounce", WORDS, 1, 50, 1, LINE, 0)
    assert machine.word(LINE) == 1  # the first store, and no trip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_sum_gets_every_product(machine, dtype):
    rounds = 80
    assert machine.call(dtype, WORDS, 1, rounds, 1) > 0
    elements = 0
    for register in machine.sums:
        found = machine.vector(register, dtype)
        assert set(found) == {1 + rounds / 8}
        elements += len(found)
    assert machine.code.flops(machine.vectors, dtype) == 2 * elements


def test_the_triad_writes_its_array_and_nothing_else(machine):
    length = 4 * machine.code.BLOCK
    values = [float(i) for i in range(3 * length // 4)]
    machine.machine.mem_write(ARRAYS, struct.pack(f"<{len(values)}f", *values))
    before = bytes(machine.machine.mem_read(ARRAYS, SIZE))
    machine.call("triad", WORDS, 1, length // machine.code.BLOCK, 1, ARRAYS, length)
    after = bytes(machine.machine.mem_read(ARRAYS, SIZE))
    assert after[:length] == before[length : 2 * length]
    assert after[length:] == before[length:]


def test_the_total_reads_every_element_once(machine):
    count = 3 * machine.code.BLOCK
    values = [float(i % 7) for i in range(count // 4)]
    machine.machine.mem_write(ARRAYS, struct.pack(f"<{len(values)}f", *values))
    machine.call("total", WORDS, 1, 3, 1, ARRAYS, 0)
    found = sum(sum(machine.vector(register, "float32")) for register in machine.totals)
    assert found == sum(values)
