"""The probe's loops in AArch64 machine code, with NEON vectors; `code_x86_64` says what they do.

x0 barrier, x1 target, x2 count, x3 patience, x4 base, x5 value (AAPCS64); ticks are those of the
virtual counter. Only v0 to v7 and v16 to v31 are used: they need not be kept for the caller.
Encodings: Arm Architecture Reference Manual, C6.2 and C7.2. Run so far only in an emulator, not on
an Arm machine.
"""

from __future__ import annotations

import struct

VECTORS: dict[str, tuple[str, ...]] = {"neon": ()}
"""Every 64-bit Arm processor has them."""
_REGISTERS = [*range(8), *range(16, 28)]
"""20 independent sums: more than latency times units (4 x 4)."""
_ONE, _EIGHTH = 30, 31
SPINS = 1 << 14
BLOCK = 128
_BTI_C, _RET = 0xD503245F, 0xD65F03C0
_TICKS = [0xD5033B9F, 0xD5033FDF, 0xD53BE040]  # dsb ish; isb; mrs x0, cntvct_el0
_START = [
    _BTI_C,
    0xC85FFC09,  # ldaxr x9, [x0]
    0x91000529,  # add x9, x9, #1
    0xC80AFC09,  # stlxr w10, x9, [x0]
    0x35FFFFAA,  # cbnz w10, back to ldaxr
    0xC8DFFC09,  # look: ldar x9, [x0]
    0xEB01013F,  # cmp x9, x1
    0x540000C2,  # b.hs go
    0xD503203F,  # yield
    0xF1000463,  # subs x3, x3, #1
    0x54FFFF61,  # b.ne look
    0xD2800000,  # mov x0, #0
    _RET,
    # go:
]
_FROM = [*_TICKS, 0xAA0003EB]  # mov x11, x0
_TO = [*_TICKS, 0xCB0B0000, _RET]  # sub x0, x0, x11


def loops(vectors: str) -> dict[str, bytes]:
    """Code by name: ticks, bounce, float32, float64, triad, total."""
    words = {
        "ticks": [_BTI_C, *_TICKS, _RET],
        "bounce": [*_START, *_FROM, *_bounce(), *_TO],
        "float32": [*_START, *_arithmetic(0x0F00F400, 0x4E20CC00)],
        "float64": [*_START, *_arithmetic(0x2F00F400, 0x4E60CC00)],
        "triad": [*_START, *_FROM, *_triad(), *_TO],
        "total": [*_START, *_FROM, *_total(), *_TO],
    }
    return {name: struct.pack(f"<{len(code)}I", *code) for name, code in words.items()}


def flops(vectors: str, dtype: str) -> int:
    """Operations that a round of the arithmetic loop does: two for each element of each sum."""
    return 2 * len(_REGISTERS) * 16 // {"float32": 4, "float64": 8}[dtype]


def _bounce() -> list[int]:
    return [
        0xD2800003 | SPINS << 5,  # mov x3, #SPINS
        0xC8DFFC89,  # look: ldar x9, [x4]
        0xEB05013F,  # cmp x9, x5
        0x540000A0,  # b.eq got
        0xD5033FDF,  # isb: a pause longer than `yield`, which many processors pass over
        0xF1000463,  # subs x3, x3, #1
        0x54FFFF61,  # b.ne look
        0x14000006,  # b out
        0x910004A9,  # got: add x9, x5, #1
        0xC89FFC89,  # stlr x9, [x4]
        0x910008A5,  # add x5, x5, #2
        0xF1000442,  # subs x2, x2, #1
        0x54FFFEA1,  # b.ne look
        # out:
    ]


def _arithmetic(fmov: int, fmla: int) -> list[int]:
    """sum += 1 * 1/8 for each of the sums, `count` times."""
    one, eighth = 0x40000000 | fmov | 3 << 16 | 16 << 5, 0x40000000 | fmov | 2 << 16 | 0 << 5
    constants = [one | register for register in (*_REGISTERS, _ONE)] + [eighth | _EIGHTH]
    body = [fmla | _EIGHTH << 16 | _ONE << 5 | register for register in _REGISTERS]
    return [*constants, *_FROM, *_repeat(body), *_TO]


def _triad() -> list[int]:
    """a = b + s c over arrays that follow one another; s is zero."""
    body = []
    for place in range(BLOCK // 16):
        at = place << 10
        body += [0x3DC000C0 | at, 0x3DC000E1 | at]  # ldr q0, [x6, #]; ldr q1, [x7, #]
        body += [0x4E22CC20, 0x3D800080 | at]  # fmla v0.4s, v1.4s, v2.4s; str q0, [x4, #]
    ahead = [0x91000000 | BLOCK << 10 | register << 5 | register for register in (4, 6, 7)]
    # add x6, x4, x5; add x7, x6, x5; movi v2.2d, #0
    return [0x8B050086, 0x8B0500C7, 0x6F00E402, *_repeat(body + ahead)]


def _total() -> list[int]:
    """Read everything, into eight sums."""
    body = []
    for i in range(8):
        body += [0x3DC00090 | i << 10]  # ldr q16, [x4, #]
        body += [0x4E20D400 | 16 << 16 | i << 5 | i]  # fadd v.4s, v.4s, v16.4s
    zero = [0x6F00E400 | i for i in range(8)]  # movi v.2d, #0
    return [*zero, *_repeat([*body, 0x91000000 | BLOCK << 10 | 4 << 5 | 4])]


def _repeat(body: list[int]) -> list[int]:
    """subs x2, x2, #1; b.ne back to the body"""
    return [*body, 0xF1000442, 0x54000001 | (-(len(body) + 1) & 0x7FFFF) << 5]
