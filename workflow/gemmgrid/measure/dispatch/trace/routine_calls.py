"""Tracing BLAS calls: switches the addresses through which loaded libraries call BLAS to our stubs.

    trace = RoutineTrace()
    with tracing(trace):
        np.matmul(A, B)
    trace.read()    # [TracedCall(routine=sgemm, caller=…, arguments={"m": 512, …}, count=1)]

Watches every word of every loaded object that holds the address of a BLAS routine (its global
offset table), and every ctypes function of this process that points to one. Calls inside a BLAS
library are its own business and not watched. A library that was linked statically into its caller
calls without such a word: then nothing is seen here, and sampling has to say what ran.
"""

from __future__ import annotations

import ctypes
import gc
from collections import Counter
from dataclasses import dataclass
from typing import Any

from gemmgrid.measure.dispatch.objects.elf import (
    Import,
    LoadedObject,
    imports,
    loaded_objects,
    unload_count,
)
from gemmgrid.measure.dispatch.objects.refusals import require_platform
from gemmgrid.measure.dispatch.objects.words import read_word
from gemmgrid.measure.dispatch.trace.patch import Switch, idle
from gemmgrid.measure.dispatch.trace.signatures import Routine, parse, watched
from gemmgrid.measure.dispatch.trace.stubs import Wanted, address_of, stub_memory
from gemmgrid.measure.libraries.linker import lookup
from gemmgrid.measure.libraries.names import is_blas_file

CTYPES_CALLER = "ctypes"
_CTYPES_FUNCTION = ctypes.CFUNCTYPE(None).__mro__[1]
"""What all functions of ctypes are instances of."""


@dataclass(frozen=True)
class Slot:
    """One watched word: who calls through it, which routine, and the function that it leads to."""

    routine: Routine
    caller: str
    owner: LoadedObject | None
    address: int
    target: int
    library: str
    function: Any = None
    """The ctypes function whose own word this is; held, so that the word stays where it is."""


@dataclass
class TracedCall:
    """Calls of one routine by one caller with the same arguments."""

    routine: Routine
    caller: str
    library: str
    arguments: dict[str, Any] | None
    addresses: dict[str, int]
    """Where the operands of the first of these calls lay."""
    count: int
    unread: int = 0
    """Of these calls, how many were only counted: arguments of the first ones alone are kept."""


class RoutineTrace:
    """Counts the calls of BLAS routines while it is on, with their arguments.

    Raises PlatformError, ExecutableMemoryError, TracerBusyError.
    """

    def __init__(self) -> None:
        require_platform()
        with idle():
            objects = loaded_objects()
            self.slots = _library_slots(objects) + _ctypes_slots(objects)
        keys = [(s.caller, s.routine.symbol, s.target) for s in self.slots]
        self._memory = stub_memory()
        stubs = self._memory.get(
            Wanted(key, slot.target, slot.routine)
            for key, slot in zip(keys, self.slots, strict=True)
        )
        pairs = [(slot, stubs[key]) for key, slot in zip(keys, self.slots, strict=True)]
        self.switches = [Switch(slot.address, stub.address, slot.owner) for slot, stub in pairs]
        self._by_number = {stub.number: slot for slot, stub in pairs}
        self._start: dict[int, int] = {}

    def begin(self) -> None:
        """Forget earlier calls."""
        self._memory.clear_notes()
        self._start = {n: int(self._memory.counters[n]) for n in self._by_number}

    def read(self) -> list[TracedCall]:
        """The calls since `begin`; may be asked while the trace is still on."""
        groups: dict[tuple[Any, ...], TracedCall] = {}
        noted: Counter[int] = Counter()
        for note in self._memory.notes():
            slot = self._by_number.get(note.number)
            if slot is None:
                continue
            noted[note.number] += note.count
            arguments, addresses = slot.routine.decode(note.arguments)
            key = (note.number, repr(arguments))  # scalars may be NaN, which equals nothing
            if key not in groups:
                groups[key] = TracedCall(
                    slot.routine, slot.caller, slot.library, arguments, addresses, 0
                )
            groups[key].count += note.count
        calls = list(groups.values())
        for number, slot in self._by_number.items():
            extra = int(self._memory.counters[number]) - self._start.get(number, 0) - noted[number]
            if extra <= 0:
                continue
            alike = [call for (key, _), call in groups.items() if key == number]
            if len(alike) == 1:
                alike[0].count += extra
                alike[0].unread = extra
            else:
                calls.append(TracedCall(slot.routine, slot.caller, slot.library, None, {}, extra))
        return calls


_known: dict[tuple[str, int], list[Import]] = {}
_known_unloads = -1


def _blas_imports(loaded: LoadedObject) -> list[Import]:
    key = (loaded.path, loaded.base)
    if key not in _known:
        _known[key] = imports(loaded, watched)
    return _known[key]


def _library_slots(objects: list[LoadedObject]) -> list[Slot]:
    global _known_unloads
    unloads = unload_count()
    if unloads != _known_unloads:  # something else may lie at a remembered address by now
        _known.clear()
        _known_unloads = unloads
    slots = []
    for loaded in objects:
        if is_blas_file(loaded.name):
            continue
        for one in _blas_imports(loaded):
            routine = parse(one.symbol)
            target = _target(loaded, one)
            if routine is not None and target:
                library = _library_of(target, objects)
                slots.append(Slot(routine, loaded.path, loaded, one.address, target, library))
    return slots


def _target(loaded: LoadedObject, one: Import) -> int:
    """The function that a call through this word reaches, or 0 where it is not known.

    Until its first call a lazily bound word points back into its own object, to code that lets the
    loader look the symbol up; then the lookup is made here, in the loader's order: what is global,
    then what the object brought along.
    """
    value = read_word(one.address)
    if one.own is not None and value == one.own:
        return value
    if value and not loaded.contains(value):
        return value
    for path in (None, loaded.path):
        found = lookup(path, one.symbol)
        if found:
            return found
    return one.own or 0


def _ctypes_slots(objects: list[LoadedObject]) -> list[Slot]:
    """ctypes functions hold the address they call in a word of their own."""
    slots = []
    for function in gc.get_objects():
        # Not isinstance: it would ask foreign objects for their __class__, which may run anything.
        if not issubclass(type(function), _CTYPES_FUNCTION):
            continue
        routine = parse(getattr(function, "__name__", ""))
        target = address_of(function)
        if routine is None or not target:
            continue
        library = _library_of(target, objects)
        address = ctypes.addressof(function)
        slots.append(Slot(routine, CTYPES_CALLER, None, address, target, library, function))
    return slots


def _library_of(address: int, objects: list[LoadedObject]) -> str:
    return next((o.path for o in objects if o.contains(address)), "")
