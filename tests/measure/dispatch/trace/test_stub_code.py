"""The stubs' machine code, executed instruction by instruction in an emulator, for both processors.

Needs the `unicorn` emulator (requirements/test.in). On x86-64 the same code also runs for real in
every other test here; for AArch64 this is where it has run so far.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from gemmgrid.measure.dispatch.trace import code_aarch64, code_x86_64
from gemmgrid.measure.dispatch.trace.signatures import Routine, parse
from gemmgrid.measure.dispatch.trace.stub_layout import Capture, Ring

CODE, COUNTER, RING, TARGET, DATA, STACK = (0x100000 * i for i in range(1, 7))
SIZE = 0x10000
NUMBER = 7
X86 = "RDI RSI RDX RCX R8 R9 XMM0 XMM1 RSP RAX RBX R10 R12"
SYMBOLS = ["scipy_cblas_sgemm64_", "cblas_dgemm", "cblas_zgemm", "sgemm_", "zgemm_", "cherk_",
           "dgemv_64_", "sdot_", "cblas_cdotu_sub", "cublasSgemm_v2"]  # fmt: skip


class Machine:
    """A processor that runs one stub; `call` sets the arguments as its ABI passes them."""

    def __init__(self, processor: str) -> None:
        import unicorn
        from unicorn import arm64_const, x86_const

        self.x86 = processor == "x86_64"
        self.code = code_x86_64 if self.x86 else code_aarch64
        if self.x86:
            self.machine = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
            register = {word: getattr(x86_const, f"UC_X86_REG_{word}") for word in X86.split()}
            names = [register[word] for word in X86.split()[:6]]
            self.floats = [register["XMM0"], register["XMM1"]]
            self.stack = register["RSP"]
            self.kept = [*names, *(register[word] for word in X86.split()[8:])]
        else:
            self.machine = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
            base = arm64_const.UC_ARM64_REG_X0
            names = [base + i for i in range(8)]
            self.floats = [arm64_const.UC_ARM64_REG_D0, arm64_const.UC_ARM64_REG_D1]
            self.stack = arm64_const.UC_ARM64_REG_SP
            self.kept = [*names, base + 8, base + 18, base + 19, base + 28,
                         arm64_const.UC_ARM64_REG_X30, self.stack]  # fmt: skip
        self.integers = names
        for start in (CODE, COUNTER, TARGET, DATA, STACK):
            self.machine.mem_map(start, SIZE)
        self.machine.mem_map(RING, 0x100000)

    def arguments(self, routine: Routine) -> list[Capture]:
        return routine.captures(self.code.INTEGER_REGISTERS, self.code.FLOAT_REGISTERS)

    def call(self, ring: Ring | None, captures: list[Capture]) -> None:
        """Run one stub from its start until it reaches the function; registers must be kept."""
        code = self.code.stub(NUMBER, COUNTER, TARGET, ring, captures)
        assert len(code) <= self.code.STUB_BYTES
        self.machine.mem_write(CODE, code)
        before = [self.machine.reg_read(register) for register in self.kept]
        self.machine.emu_start(CODE, TARGET, count=1000)
        assert self._at() == TARGET
        assert [self.machine.reg_read(register) for register in self.kept] == before

    def _at(self) -> int:
        from unicorn import arm64_const, x86_const

        counter = x86_const.UC_X86_REG_RIP if self.x86 else arm64_const.UC_ARM64_REG_PC
        return self.machine.reg_read(counter)

    def set_arguments(self, captures: list[Capture]) -> list[bytes]:
        """Distinct values everywhere; what the notes must hold, byte for byte."""
        expected = []
        top = STACK + SIZE // 2
        self.machine.reg_write(self.stack, top)
        first = top + (8 if self.x86 else 0)  # past the return address that x86 pushes
        for i, capture in enumerate(captures):
            content = bytes(range(16 * i + 1, 16 * i + 17))
            value = int.from_bytes(content[:8], "little")
            if capture.pointed_bytes:
                # The last byte of the value is the last byte of the mapped memory.
                value = DATA + SIZE - capture.pointed_bytes - 32 * i
                self.machine.mem_write(value, content[: capture.pointed_bytes])
                expected.append(content[: capture.pointed_bytes])
            else:
                expected.append(content[:8])
            self._place(capture, value, first)
        return expected

    def _place(self, capture: Capture, value: int, first: int) -> None:
        if capture.place == "register":
            self.machine.reg_write(self.integers[capture.index], value)
        elif capture.place == "float":
            self.machine.reg_write(self.floats[capture.index], value)
        else:
            self.machine.mem_write(first + 8 * capture.index, struct.pack("<Q", value))

    def word(self, address: int) -> int:
        return int(struct.unpack("<Q", bytes(self.machine.mem_read(address, 8)))[0])


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> Machine:
    pytest.importorskip("unicorn", reason="needs the unicorn emulator: see requirements/test.in")
    return Machine(request.param)


def ring() -> Ring:
    return Ring(RING, 4, 14)


def routine_of(symbol: str) -> Routine:
    routine = parse(symbol)
    assert routine is not None
    return routine


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_a_stub_notes_every_argument_and_goes_on(machine: Machine, symbol: str) -> None:
    captures = machine.arguments(routine_of(symbol))
    expected = machine.set_arguments(captures)
    machine.call(ring(), captures)
    assert machine.word(COUNTER) == 1
    assert machine.word(RING) == 1
    head = bytes(machine.machine.mem_read(RING + 64, 8))
    assert struct.unpack("<II", head) == (NUMBER, 1)
    for slot, content in enumerate(expected):
        place = RING + 64 + Ring.offset(slot)
        noted = bytes(machine.machine.mem_read(place, 16))
        assert noted[: len(content)] == content, f"argument {slot} of {symbol}"


def test_a_full_ring_is_not_written_past_its_end(machine: Machine) -> None:
    captures = machine.arguments(routine_of("sgemm_"))
    machine.set_arguments(captures)
    for _ in range(6):
        machine.call(ring(), captures)
    assert machine.word(COUNTER) == 6
    assert machine.word(RING) == 6
    end = RING + ring().total_bytes
    assert bytes(machine.machine.mem_read(end, 4096)) == bytes(4096)
    last = RING + 64 + 3 * ring().record_bytes
    assert struct.unpack("<II", bytes(machine.machine.mem_read(last, 8))) == (NUMBER, 1)


def test_a_counting_stub_counts_and_writes_nothing_else(machine: Machine) -> None:
    machine.set_arguments([])
    for _ in range(3):
        machine.call(None, [])
    assert machine.word(COUNTER) == 3
    assert bytes(machine.machine.mem_read(RING, 4096)) == bytes(4096)


def test_arguments_beyond_the_registers_lie_on_the_stack(machine: Machine) -> None:
    captures = machine.arguments(routine_of("scipy_cblas_sgemm64_"))
    places: dict[str, list[Any]] = {"register": [], "float": [], "stack": []}
    for capture in captures:
        places[capture.place].append(capture.index)
    registers = machine.code.INTEGER_REGISTERS
    assert places["register"] == list(range(registers))
    assert places["float"] == [0, 1]  # alpha and beta
    assert places["stack"] == list(range(14 - 2 - registers))
