"""Switching words of live memory from one function's address to another's, and back.

What a word held before is put back only if it still holds what we wrote; a word that someone else
has changed meanwhile is left alone and counted in `lost`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from gemmgrid.measure.dispatch.objects.elf import LoadedObject
from gemmgrid.measure.dispatch.objects.refusals import TracerBusyError
from gemmgrid.measure.dispatch.objects.words import WritablePages, read_word, write_word
from gemmgrid.measure.libraries.linker import base_of, hold, release

_patched = threading.Lock()
"""Held while words are switched, or read to be switched: two tracers at once would put back each
other's addresses."""


@dataclass(frozen=True)
class Switch:
    """One word to switch; `owner` is the object it lies in, None for memory of our own process."""

    address: int
    replacement: int
    owner: LoadedObject | None


@dataclass
class PatchSet:
    """A set of words that are switched together: `on()`, then `off()`."""

    switches: list[Switch]
    gone: list[str] = field(default_factory=list)
    """Objects that were unloaded before the words could be switched."""
    refused: int = 0
    lost: int = 0
    _before: dict[int, int] = field(default_factory=dict)
    _written: dict[int, int] = field(default_factory=dict)
    _pins: list[int] = field(default_factory=list)

    def watched(self, switches: Iterable[Switch]) -> int:
        """How many of these words are switched now."""
        return len({s.address for s in switches} & self._written.keys())

    def on(self) -> None:
        """Switch all words that can be. Raises TracerBusyError or ProtectionError, having
        changed nothing."""
        _take()
        try:
            self._switch_on()
        except BaseException:
            try:
                self._put_back()
            finally:
                self._forget()
            raise

    def _switch_on(self) -> None:
        present = self._pin_owners()
        switches = [s for s in self.switches if s.owner is None or s.owner.base in present]
        with WritablePages(s.address for s in switches) as pages:
            usable = [s for s in switches if s.address not in pages.refused]
            self.refused = len(pages.refused)
            for switch in usable:
                self._before[switch.address] = read_word(switch.address)
                self._written[switch.address] = switch.replacement
                write_word(switch.address, switch.replacement)

    def off(self) -> None:
        """Put back every word that still holds what `on` wrote."""
        try:
            self._put_back()
        finally:
            self._forget()

    def _put_back(self) -> None:
        with WritablePages(self._written) as pages:
            for address, replacement in self._written.items():
                if address not in pages.refused and read_word(address) == replacement:
                    write_word(address, self._before[address])
                else:
                    self.lost += 1

    def _forget(self) -> None:
        self._before.clear()
        self._written.clear()
        for handle in self._pins:
            release(handle)
        self._pins.clear()
        _patched.release()

    def _pin_owners(self) -> set[int]:
        """Keep every owner loaded while its words are switched; the bases of those still there.

        Without this, an object unloaded between `on` and `off` would leave us writing to memory
        that belongs to something else by then. Held first and compared after, so that nothing can
        be unloaded in between; one that was unloaded and loaded again lies elsewhere.
        """
        owners = {s.owner.base: s.owner for s in self.switches if s.owner is not None}
        present = set()
        for base, owner in owners.items():
            if owner.main:
                present.add(base)
                continue
            handle = hold(owner.path)
            if handle:
                self._pins.append(handle)
                if base_of(handle) == base:
                    present.add(base)
        self.gone = [owner.path for base, owner in owners.items() if base not in present]
        return present


class Trace(Protocol):
    """What can be switched on: it names its words, and forgets what it saw before."""

    switches: list[Switch]

    def begin(self) -> None: ...


@contextmanager
def tracing(*traces: Trace) -> Iterator[PatchSet]:
    """All these traces on, together, and off again at the end whatever happens."""
    patch = PatchSet([switch for trace in traces for switch in trace.switches])
    for trace in traces:
        trace.begin()
    patch.on()
    try:
        yield patch
    finally:
        patch.off()


@contextmanager
def idle() -> Iterator[None]:
    """No words are switched meanwhile, so they hold what they mean. Raises TracerBusyError."""
    _take()
    try:
        yield
    finally:
        _patched.release()


def _take() -> None:
    if not _patched.acquire(blocking=False):
        raise TracerBusyError("another tracer is on in this process; only one can be at a time")
