"""The stubs in AArch64 machine code; see `code_x86_64` for what a stub does.

x9 to x17 may be changed between a call and its function (AAPCS64, 6.1.1: x9-x15 hold nothing across
a call, x16 and x17 belong to code in between). Encodings: Arm Architecture Reference Manual, C6.2.
Run so far only in an emulator, not on an Arm machine.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gemmgrid.measure.dispatch.trace.stub_layout import Capture, Ring

INTEGER_REGISTERS = 8
FLOAT_REGISTERS = 8
STUB_BYTES = 512

_RECORD, _VALUE, _NEXT, _FAILED, _ADDRESS, _GO = 9, 10, 11, 12, 13, 16
_SP = 31
_BTI_C = 0xD503245F
_STORES_IN_ORDER = 0xD5033ABF  # dmb ishst


class _Code:
    """Instructions, and the 64-bit constants behind them that they load."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.constants: list[tuple[int, int]] = []

    def add(self, *words: int) -> None:
        self.words += words

    def constant(self, register: int, value: int) -> None:
        """ldr register, =value"""
        self.constants.append((len(self.words), value))
        self.add(0x58000000 | register)

    def bytes(self) -> bytes:
        pool = len(self.words) + len(self.words) % 2
        words = self.words + [0] * (pool - len(self.words))
        for i, (position, _) in enumerate(self.constants):
            words[position] |= (pool + 2 * i - position) << 5
        values = [value for _, value in self.constants]
        return struct.pack(f"<{len(words)}I{len(values)}Q", *words, *values)


def stub(
    number: int, counter: int, target: int, ring: Ring | None, captures: Sequence[Capture]
) -> bytes:
    """Code that adds 1 at `counter`, notes `captures` in the ring (none: only counts), goes on."""
    code = _Code()
    code.add(_BTI_C)
    code.constant(_RECORD, counter)
    code.add(*_add_one(_RECORD))
    if ring is not None and captures:
        code.constant(_RECORD, ring.address)
        code.add(*_add_one(_RECORD))
        code.constant(_NEXT, ring.capacity)
        code.add(0xEB00001F | _NEXT << 16 | _VALUE << 5)  # cmp value, next
        branch = len(code.words)
        code.add(0x54000002)  # b.hs past the notes
        code.constant(_NEXT, ring.record_bytes)
        # madd record, value, next, record; add record, record, #header
        code.add(0x9B000000 | _NEXT << 16 | _RECORD << 10 | _VALUE << 5 | _RECORD)
        code.add(0x91000000 | ring.header_bytes << 10 | _RECORD << 5 | _RECORD)
        code.constant(_VALUE, number)
        code.add(_store32(_VALUE, 0))
        for i, capture in enumerate(captures):
            code.add(*_note(capture, ring.offset(i)))
        # movz value, #1; the notes must be seen before the word that says they are complete
        code.add(_STORES_IN_ORDER, 0xD2800020 | _VALUE, _store32(_VALUE, 4))
        code.words[branch] |= (len(code.words) - branch) << 5
    code.constant(_GO, target)
    code.add(0xD61F0000 | _GO << 5)  # br
    return code.bytes()


def _add_one(address: int) -> list[int]:
    """value = [address]; [address] += 1, tried again until no other thread came between."""
    return [
        0xC85F7C00 | address << 5 | _VALUE,  # ldxr value, [address]
        0x91000400 | _VALUE << 5 | _NEXT,  # add next, value, #1
        0xC8007C00 | _FAILED << 16 | address << 5 | _NEXT,  # stxr failed, next, [address]
        0x35000000 | (-3 & 0x7FFFF) << 5 | _FAILED,  # cbnz failed, back to ldxr
    ]


def _note(capture: Capture, offset: int) -> list[int]:
    if capture.place == "float":
        return [0xFD000000 | offset // 8 << 10 | _RECORD << 5 | capture.index]  # str d, [record]
    words = []
    register = capture.index
    if capture.place == "stack":
        words.append(_load64(_ADDRESS, _SP, 8 * capture.index))
        register = _ADDRESS
    if not capture.pointed_bytes:
        return [*words, _store64(register, offset)]
    if capture.pointed_bytes == 1:
        load = 0x39400000 | register << 5 | _VALUE  # ldrb
    elif capture.pointed_bytes == 4:
        load = 0xB9800000 | register << 5 | _VALUE  # ldrsw
    else:
        load = _load64(_VALUE, register, 0)
    words += [load, _store64(_VALUE, offset)]
    if capture.pointed_bytes == 16:
        words += [_load64(_VALUE, register, 8), _store64(_VALUE, offset + 8)]
    return words


def _load64(register: int, base: int, offset: int) -> int:
    return 0xF9400000 | offset // 8 << 10 | base << 5 | register


def _store64(register: int, offset: int) -> int:
    return 0xF9000000 | offset // 8 << 10 | _RECORD << 5 | register


def _store32(register: int, offset: int) -> int:
    return 0xB9000000 | offset // 4 << 10 | _RECORD << 5 | register
