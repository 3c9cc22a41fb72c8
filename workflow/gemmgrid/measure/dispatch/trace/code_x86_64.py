"""The stubs in x86-64 machine code.

A stub stands between a caller and a function. It counts the call, notes the arguments if asked, and
jumps on: the function sees the registers and the stack exactly as its caller left them, and returns
straight to the caller. Only r11 is changed, which the ABI gives to code in between (System V ABI,
AMD64 supplement, 3.2.1), and rax for the time of the notes. No interpreter, no lock: any number of
threads may run it at once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gemmgrid.measure.dispatch.trace.stub_layout import Capture, Ring

INTEGER_REGISTERS = 6
FLOAT_REGISTERS = 8
STUB_BYTES = 512

# rdi, rsi, rdx, rcx, r8, r9 as the instruction set numbers them
_NUMBERS = (7, 6, 2, 1, 8, 9)
_RAX = 0
_ENDBR64 = b"\xf3\x0f\x1e\xfa"
_PUSH_RAX, _POP_RAX = b"\x50", b"\x58"
_JMP_R11 = b"\x41\xff\xe3"


def stub(
    number: int, counter: int, target: int, ring: Ring | None, captures: Sequence[Capture]
) -> bytes:
    """Code that adds 1 at `counter`, notes `captures` in the ring (none: only counts), goes on."""
    code = _ENDBR64 + _load_r11(counter) + b"\xf0\x49\xff\x03"  # lock inc qword [r11]
    if ring is not None and captures:
        notes = b"\x41\xc7\x03" + struct.pack("<I", number)  # mov dword [r11], number
        notes += b"".join(_note(capture, ring.offset(i)) for i, capture in enumerate(captures))
        notes += b"\x41\xc7\x43\x04" + struct.pack("<I", 1)  # mov dword [r11+4], 1: complete
        claim = b"\x48\x69\xc0" + struct.pack("<I", ring.record_bytes)  # imul rax, rax, size
        claim += b"\x4d\x8d\x9c\x03" + struct.pack("<i", ring.header_bytes)  # lea r11, [r11+rax+h]
        body = claim + notes
        code += _PUSH_RAX + _load_r11(ring.address)
        code += b"\xb8" + struct.pack("<I", 1)  # mov eax, 1
        code += b"\xf0\x49\x0f\xc1\x03"  # lock xadd [r11], rax: rax is now this call's place
        code += b"\x48\x3d" + struct.pack("<I", ring.capacity)  # cmp rax, capacity
        code += b"\x0f\x83" + struct.pack("<i", len(body))  # jae past the notes
        code += body + _POP_RAX
    return code + _load_r11(target) + _JMP_R11


def _load_r11(value: int) -> bytes:
    return b"\x49\xbb" + struct.pack("<Q", value)


def _note(capture: Capture, offset: int) -> bytes:
    """Copy one argument, or what it points to, to [r11 + offset]."""
    if capture.place == "float":
        # movq [r11+offset], xmm
        return b"\x66\x41\x0f\xd6" + bytes([0x83 | capture.index << 3]) + struct.pack("<i", offset)
    if capture.place == "register":
        register, code = _NUMBERS[capture.index], b""
    else:
        # mov rax, [rsp+...]: 8 for the rax pushed above, 8 for the return address
        register = _RAX
        code = b"\x48\x8b\x84\x24" + struct.pack("<i", 16 + 8 * capture.index)
    if not capture.pointed_bytes:
        return code + _store(register, offset)
    words = max(1, capture.pointed_bytes // 8)
    if words == 1:
        return code + _load(register, 0, capture.pointed_bytes) + _store(_RAX, offset)
    # The high word first: the address may be in rax itself.
    code += b"\x50" if register == _RAX else b""
    code += _load(register, 8, 8) + _store(_RAX, offset + 8)
    code += b"\x58" if register == _RAX else b""
    return code + _load(register, 0, 8) + _store(_RAX, offset)


def _store(register: int, offset: int) -> bytes:
    """mov [r11 + offset], register"""
    rex = 0x49 | (register >> 3) << 2
    return bytes([rex, 0x89, 0x83 | (register & 7) << 3]) + struct.pack("<i", offset)


def _load(base: int, displacement: int, size: int) -> bytes:
    """rax = size bytes at [base + displacement]; shorter values are extended."""
    modrm = 0x40 | base & 7
    tail = bytes([modrm, displacement])
    high = base >> 3
    if size == 1:
        return bytes([0x40 | high, 0x0F, 0xB6]) + tail  # movzx eax, byte
    if size == 4:
        return bytes([0x48 | high, 0x63]) + tail  # movsxd rax, dword
    return bytes([0x48 | high, 0x8B]) + tail  # mov rax, qword
