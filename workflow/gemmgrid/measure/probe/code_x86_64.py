"""The probe's loops in x86-64 machine code (System V ABI), from SSE2 up to AVX-512.

Every loop but `ticks` is called by all threads of a team at once, with six arguments:

    rdi  barrier   word that counts arrivals; 0 at first
    rsi  target    arrivals at which all go on
    rdx  count     rounds of the loop
    rcx  patience  looks at the barrier before a thread gives up
    r8   base      the cache line of `bounce`, or the arrays
    r9   value     the first value of `bounce`, or the bytes of one array

and returns the ticks of the time-stamp counter from the last arrival to its own end; 0 where it
gave up. Encodings: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
"""

from __future__ import annotations

import struct

VECTORS = {"avx512": ("avx512f",), "avx2": ("avx2", "fma"), "sse2": ("sse2",)}
"""Widest first, with the flags of /proc/cpuinfo that each needs. sse2 has no fused operation: it
multiplies and adds in two, and counts the same."""
_BYTES = {"avx512": 64, "avx2": 32, "sse2": 16}
_SUMS = {"avx512": 20, "avx2": 12, "sse2": 14}
"""Independent sums: more than latency times units (4 x 2), fewer than registers less 2."""
SPINS = 1 << 14
"""Looks at the line of `bounce` in one call, a fraction of a millisecond, before it gives up."""
BLOCK = 128
"""Bytes of one array that a round of `triad` writes; `total` reads as many."""
_NEXT = b"\x49\x83\xe8\x80"  # sub r8, -BLOCK
_START = (
    b"\xf3\x0f\x1e\xfa"  # endbr64
    b"\x49\x89\xd2"  # mov r10, rdx
    b"\xb8\x01\x00\x00\x00"  # mov eax, 1
    b"\xf0\x48\x0f\xc1\x07"  # lock xadd [rdi], rax
    b"\x48\x8b\x07"  # look: mov rax, [rdi]
    b"\x48\x39\xf0"  # cmp rax, rsi
    b"\x73\x0a"  # jae go
    b"\xf3\x90"  # pause
    b"\x48\xff\xc9"  # dec rcx
    b"\x75\xf1"  # jnz look
    b"\x31\xc0\xc3"  # xor eax, eax; ret
)
_TICKS = b"\x0f\xae\xe8\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0"  # lfence; rdtsc; rax |= rdx << 32
_FROM = _TICKS + b"\x49\x89\xc3"  # go: mov r11, rax
_TO = _TICKS + b"\x4c\x29\xd8\xc3"  # sub rax, r11; ret


def loops(vectors: str) -> dict[str, bytes]:
    """Code by name: ticks, bounce, float32, float64, triad, total."""
    return {
        "ticks": b"\xf3\x0f\x1e\xfa" + _TICKS + b"\xc3",
        "bounce": _START + _FROM + _bounce() + _TO,
        "float32": _START + _arithmetic(vectors, double=False),
        "float64": _START + _arithmetic(vectors, double=True),
        "triad": _START + _FROM + _triad(vectors) + _TO,
        "total": _START + _FROM + _total(vectors) + _TO,
    }


def flops(vectors: str, dtype: str) -> int:
    """Operations that a round of the arithmetic loop does: two for each element of each sum."""
    return 2 * _SUMS[vectors] * _BYTES[vectors] // {"float32": 4, "float64": 8}[dtype]


def _bounce() -> bytes:
    """Wait for `value` in the line, store value + 1, go on with value + 2; `count` times.

    Without a pause between looks, these hold up the store that they wait for: near CPUs then took
    50 to 90 ns by the shape of the loop and the line's address; with it, 42 to 48 ns.
    """
    return (
        b"\xb9" + struct.pack("<I", SPINS) + b"\xeb\x06"  # mov ecx, SPINS; jmp look
        b"\xff\xc9"  # again: dec ecx
        b"\x74\x1a"  # jz out
        b"\xf3\x90"  # pause
        b"\x49\x8b\x00"  # look: mov rax, [r8]
        b"\x4c\x39\xc8"  # cmp rax, r9
        b"\x75\xf2"  # jne again
        b"\x49\x8d\x41\x01"  # lea rax, [r9+1]
        b"\x49\x89\x00"  # mov [r8], rax
        b"\x49\x83\xc1\x02"  # add r9, 2
        b"\x49\xff\xca\x75\xe8"  # dec r10; jnz look; out:
    )


def _arithmetic(vectors: str, *, double: bool) -> bytes:
    """sum += 1 * 1/8 for each of the sums, `count` times; nothing overflows or is denormal."""
    sums = range(2, 2 + _SUMS[vectors])
    code = _constant(0, 1.0, double) + _constant(1, 0.125, double)
    if vectors == "sse2":
        spread = (b"\x66\x0f\x14", b"") if double else (b"\x0f\xc6", b"\x00")  # unpcklpd, shufps
        code += b"".join(spread[0] + modrm + spread[1] for modrm in (b"\xc0", b"\xc9"))
        prefix = b"\x66" if double else b""
        code += b"".join(_legacy(b"", 0x28, number, 0) for number in sums)  # movaps sum, 1
        body = b"".join(
            _legacy(prefix, 0x59, number, 0) + _legacy(prefix, 0x58, number, 1) for number in sums
        )  # mulps sum, 1; addps sum, 1/8
        return code + _FROM + _repeat(body) + _TO
    wide, broadcast = vectors == "avx512", 0x19 if double else 0x18
    for number in (1, *sums, 0):
        code += _vector(wide, double and wide, broadcast, number, 0, number == 1)
    body = b"".join(_vector(wide, double, 0xB8, number, 0, True) for number in sums)
    return code + _FROM + _repeat(body) + _leave(vectors) + _TO


def _constant(register: int, value: float, double: bool) -> bytes:
    """xmm0 or xmm1 = value, in its lowest element"""
    modrm = bytes([0xC0 | register << 3])
    if double:  # mov rax, value; movq xmm, rax
        return b"\x48\xb8" + struct.pack("<d", value) + b"\x66\x48\x0f\x6e" + modrm
    return b"\xb8" + struct.pack("<f", value) + b"\x66\x0f\x6e" + modrm


def _legacy(prefix: bytes, opcode: int, to: int, source: int) -> bytes:
    rex = b"\x44" if to > 7 else b""
    return prefix + rex + bytes([0x0F, opcode, 0xC0 | (to & 7) << 3 | source])


def _vector(wide: bool, w: bool, opcode: int, to: int, left: int, one: bool) -> bytes:
    """An instruction of the 0F38 map: vbroadcastss/sd to, xmm; vfmadd231ps/pd to, left, right.

    wide   512 bits (EVEX), otherwise 256 (VEX)
    one    the right operand, or what is broadcast, is register 1, otherwise 0
    """
    modrm = 0xC0 | (to & 7) << 3 | int(one)
    high = 0 if to & 8 else 0x80
    # Broadcasts have no left operand, and say so by the same bits as register 0.
    if wide:
        first = high | 0x60 | (0 if to & 16 else 0x10) | 2
        return bytes([0x62, first, w << 7 | (~left & 15) << 3 | 5, 0x48, opcode, modrm])
    return bytes([0xC4, high | 0x62, w << 7 | (~left & 15) << 3 | 5, opcode, modrm])


def _triad(vectors: str) -> bytes:
    """a = b + s c over arrays that follow one another, s being register 1, which is zero."""
    width, body = _BYTES[vectors], b""
    for place in range(0, BLOCK, width):
        if vectors == "sse2":
            body += bytes([0x43, 0x0F, 0x28, 0x54, 0x48, place])  # movaps xmm2, [r8+2*r9+place]
            body += b"\x0f\x59\xd1"  # mulps xmm2, xmm1
            body += bytes([0x43, 0x0F, 0x58, 0x54, 0x08, place])  # addps xmm2, [r8+r9+place]
            body += bytes([0x41, 0x0F, 0x29, 0x50, place])  # movaps [r8+place], xmm2
        else:
            body += _moving(vectors, 0x28, 2, None, place, b"\x48")  # vmovaps 2, [r8+2*r9+place]
            body += _moving(vectors, 0xA8, 2, 1, place, b"\x08")  # vfmadd213ps 2, 1, [r8+r9+place]
            body += _moving(vectors, 0x29, 2, None, place)  # vmovaps [r8+place], 2
    return (
        _leave(vectors) + b"\x0f\x57\xc9" + _repeat(body + _NEXT) + _leave(vectors)
    )  # xorps xmm1, xmm1


def _total(vectors: str) -> bytes:
    """Read everything, into a sum for each vector of a block."""
    width, body, zero = _BYTES[vectors], b"", b""
    for number, place in enumerate(range(0, BLOCK, width)):
        if vectors == "sse2":
            body += bytes([0x41, 0x0F, 0x58, 0x40 | number << 3, place])  # addps xmm, [r8+place]
        else:
            body += _moving(vectors, 0x58, number, number, place)  # vaddps sum, sum, [r8+place]
        zero += bytes([0x0F, 0x57, 0xC0 | number << 3 | number])  # xorps
    return _leave(vectors) + zero + _repeat(body + _NEXT) + _leave(vectors)


def _moving(
    vectors: str, opcode: int, to: int, left: int | None, place: int, scaled: bytes = b""
) -> bytes:
    """An instruction with an operand in memory: [r8 + place], or with r9 as `scaled` (SIB) says."""
    fused = opcode == 0xA8
    last = (~(left or 0) & 15) << 3 | fused
    modrm = 0x40 | to << 3 | (4 if scaled else 0)
    extended = (0x80 if scaled else 0xC0) | (2 if fused else 1)
    if vectors == "avx512":  # places count in vectors
        head = bytes([0x62, extended | 0x10, last | 4, 0x48])
        return head + bytes([opcode, modrm]) + scaled + bytes([place // 64])
    return bytes([0xC4, extended, last | 4, opcode, modrm]) + scaled + bytes([place])


def _leave(vectors: str) -> bytes:
    """vzeroupper: sse2's xorps leaves the upper parts of a register as they are."""
    return b"" if vectors == "sse2" else b"\xc5\xf8\x77"


def _repeat(body: bytes) -> bytes:
    """dec r10; jnz back to the body"""
    back = len(body) + 9
    return body + b"\x49\xff\xca\x0f\x85" + struct.pack("<i", -back)
