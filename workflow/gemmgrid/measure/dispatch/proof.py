"""What sampling proves: who did the work, that no BLAS did, or that two findings contradict."""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import Any

from gemmgrid.measure.dispatch.trace.perf_sampling import GENERATED, Place
from gemmgrid.measure.dispatch.trace.signatures import parse
from gemmgrid.measure.dispatch.watch import ENOUGH_SAMPLES, Watched
from gemmgrid.measure.libraries.names import is_blas_file

LEAST_SHARE = 0.05
"""Share of the samples that a function must have to be called the kernel."""
BLAS_SHARE = 0.3
"""Share from which sampled BLAS code without a traced call is a contradiction."""

_OVERHEAD = re.compile(r"libpython|^python3|^libc\.|^libc-|^ld-linux|libffi|_ctypes|libpthread|^\[")
"""Files whose time is the interpreter's and the system's, not the product's."""
_INTERFACE = re.compile(r"_?Py|c10::|at::_ops::|at::redispatch::|torch::")
"""Functions of NumPy and PyTorch that only prepare and hand on a call."""
_STATIC_BLAS = ("mkl_blas_", "mkl_lapack_")


def busiest(seen: Watched) -> list[tuple[Place, float]]:
    """Where the time went apart from waiting, the interpreter and the system; with its share."""
    samples = seen.samples
    working = samples.working
    if working < ENOUGH_SAMPLES:
        return []
    places = [
        (place, round(count / working, 3))
        for place, count in samples.busiest()
        if not _OVERHEAD.search(Path(place.library).name)
    ]
    # A small product's time goes mostly to preparing the call; the work is named first.
    return sorted(places, key=lambda one: (_prepares(one[0]) or one[1] < LEAST_SHARE, -one[1]))


def _prepares(place: Place) -> bool:
    return place.function is not None and _INTERFACE.match(place.function) is not None


def no_blas(seen: Watched) -> dict[str, Any] | None:
    """Proof that no BLAS was used: how many addresses were watched, and who did the work."""
    if seen.calls or seen.logged or seen.kernels or not seen.slots_watched:
        return None
    busy = busiest(seen)
    if not busy:
        return None
    place, share = busy[0]
    if share < LEAST_SHARE or place.function is None or is_blas(place) or _prepares(place):
        return None
    return {
        "slots_watched": seen.slots_watched,
        "function": place.function,
        "share": share,
        "samples": seen.samples.total,
        "library": None if place.function == GENERATED else plain_path(place.library),
    }


def inconsistent(seen: Watched) -> str | None:
    """A contradiction between what was called and what ran, or None."""
    if seen.kernels and not seen.calls and "trace" not in seen.problems:
        return (
            f"the kernel {seen.kernels[0].name} of {_name(seen.kernels[0].library)} ran, but none "
            f"of the {seen.slots_watched} watched addresses of BLAS routines was called"
        )
    libraries = {plain_path(call.library) for call in seen.calls}
    strangers = [k for k in seen.kernels if plain_path(k.library) not in libraries]
    if (
        seen.calls
        and strangers
        and not any(plain_path(k.library) in libraries for k in seen.kernels)
    ):
        return (
            f"{seen.calls[0].routine.name} of {_name(seen.calls[0].library)} was called, but the "
            f"kernel {strangers[0].name} that ran is of {_name(strangers[0].library)}"
        )
    if not seen.calls and not seen.logged and seen.slots_watched:
        for place, share in busiest(seen)[:1]:
            if is_blas(place) and share >= BLAS_SHARE:
                return (
                    f"{share:.0%} of the time was spent in {place.function or 'unnamed code'} of "
                    f"{_name(place.library)}, but none of the {seen.slots_watched} watched "
                    f"addresses of BLAS routines was called"
                )
    return None


def is_blas(place: Place) -> bool:
    """Whether a sampled place is inside a BLAS library, a static one included."""
    if is_blas_file(Path(place.library).name):
        return True
    function = place.function or ""
    return function.startswith(_STATIC_BLAS) or parse(function) is not None


def plain_path(path: str | None) -> str | None:
    """A path without detours (numpy/_core/../../numpy.libs)."""
    return os.path.normpath(path) if path else None


def _name(path: str) -> str:
    return Path(path).name
