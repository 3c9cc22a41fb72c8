"""Where a stub finds an argument, and where it notes it: shared by both kinds of machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

SLOT_BYTES = 16
"""Room for one noted argument: the largest is a complex128 scalar."""
RECORD_HEAD_BYTES = 8
"""Number of the stub, and a word that is 1 once the notes are complete."""


@dataclass(frozen=True)
class Capture:
    """One argument: the value itself, or the `pointed_bytes` (1, 4, 8, 16) that it points to."""

    place: Literal["register", "float", "stack"]
    index: int
    pointed_bytes: int = 0


@dataclass(frozen=True)
class Ring:
    """Memory for notes: a word that counts the calls, then room for the first `capacity`."""

    address: int
    capacity: int
    slots: int
    header_bytes: int = 64

    @property
    def record_bytes(self) -> int:
        return RECORD_HEAD_BYTES + self.slots * SLOT_BYTES

    @property
    def total_bytes(self) -> int:
        return self.header_bytes + self.capacity * self.record_bytes

    @staticmethod
    def offset(slot: int) -> int:
        """Bytes from the start of a record to the notes of one argument."""
        return RECORD_HEAD_BYTES + slot * SLOT_BYTES


def place_arguments(
    kinds: Sequence[Literal["integer", "float"]], integer_registers: int, float_registers: int
) -> list[Capture]:
    """Where the calling convention puts each argument: registers first, the rest on the stack.

    Both ABIs in use give integers and floating-point values registers of their own and pass what
    is left in 8-byte words, in order.
    """
    places: list[Capture] = []
    integers = floats = stacked = 0
    for kind in kinds:
        if kind == "integer" and integers < integer_registers:
            places.append(Capture("register", integers))
            integers += 1
        elif kind == "float" and floats < float_registers:
            places.append(Capture("float", floats))
            floats += 1
        else:
            places.append(Capture("stack", stacked))
            stacked += 1
    return places
