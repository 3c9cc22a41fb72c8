"""What the CPU libraries say about themselves: MKL's and oneDNN's verbose output.

Both print a line for each call to standard output, through C, so the file descriptor is captured:

MKL_VERBOSE SGEMM(N,N,512,512,512,0x7f…,…) 3.2ms CNR:OFF … NThr:2
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,…,512x512:512x512,1.3
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from gemmgrid.measure.dispatch.objects.elf import named_objects
from gemmgrid.measure.dispatch.trace.signatures import ADDRESSES, SCALARS, parse
from gemmgrid.measure.libraries.linker import lookup

_MKL = re.compile(
    r"MKL_VERBOSE (?P<name>\w+)\((?P<arguments>[^)]*)\) .*?(?:NThr:(?P<threads>\d+))?$"
)
_ONEDNN = re.compile(r"(?:onednn|dnnl)_verbose,")
_SHAPE = re.compile(r"(\d+(?:x\d+)*):(\d+(?:x\d+)*)")


@dataclass
class LoggedCall:
    """One call that a library reports: the routine, and the kernel where it names one."""

    library: str
    routine: str
    symbol: str | None
    arguments: dict[str, Any] = field(default_factory=dict)
    kernel: str | None = None


@dataclass
class Output:
    """What was written to a file descriptor while it was captured."""

    text: str = ""


@contextmanager
def captured(descriptor: int) -> Iterator[Output]:
    """Sends a file descriptor to a file for the time of a `with`: C output as well as Python's."""
    output = Output()
    _flush()
    with tempfile.TemporaryFile() as file:
        before = os.dup(descriptor)
        os.dup2(file.fileno(), descriptor)
        try:
            yield output
        finally:
            _flush()
            os.dup2(before, descriptor)
            os.close(before)
            file.seek(0)
            output.text = file.read().decode("utf-8", "replace")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    ctypes.CDLL(None).fflush(None)


def logged(run: Callable[[], object]) -> list[LoggedCall]:
    """Run once with the logs of MKL and oneDNN switched on, if they are in this process at all."""
    with ExitStack() as stack:
        if not _switched_on(stack):
            return []
        output = stack.enter_context(captured(1))
        run()
    return parse_mkl(output.text) + parse_onednn(output.text)


def _switched_on(stack: ExitStack) -> int:
    """Switch the logs of all libraries that have one on, until the stack ends; how many have."""
    found: dict[int, Callable[[int], Any]] = {}
    for loaded in named_objects():
        for symbol in ("MKL_Verbose", "dnnl_set_verbose"):
            address = lookup(loaded.path, symbol)
            # Every object that depends on the library finds it; only the library itself counts.
            if address and loaded.contains(address):
                found[address] = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)
    for switch in found.values():
        switch(1)
        stack.callback(switch, 0)
    torch = sys.modules.get("torch")
    if torch is None or not torch.backends.mkldnn.is_available():
        return len(found)
    # oneDNN inside PyTorch is not exported; PyTorch has a switch of its own for it.
    stack.enter_context(torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON))
    return len(found) + 1


def parse_mkl(text: str) -> list[LoggedCall]:
    """The BLAS calls in MKL's log; its other routines are left out."""
    calls = []
    for line in text.splitlines():
        match = _MKL.match(line.strip())
        routine = parse(f"{match['name'].lower()}_") if match else None
        if match is None or routine is None:
            continue
        names = routine.arguments or []
        values = match["arguments"].split(",")
        arguments: dict[str, Any] = {}
        for name, value in zip(names, values, strict=False):
            if name in ADDRESSES or name in SCALARS:  # scalars are logged as addresses too
                continue
            arguments[name] = int(value) if value.lstrip("-").isdigit() else value.lower()
        if match["threads"]:
            arguments["threads"] = int(match["threads"])
        calls.append(LoggedCall("oneMKL", routine.name, match["name"], arguments))
    return calls


def parse_onednn(text: str) -> list[LoggedCall]:
    """The primitives in oneDNN's log; a reorder is a copy into another layout or type."""
    calls = []
    for line in text.splitlines():
        line = line.strip()
        if not _ONEDNN.match(line) or ",exec," not in line:
            continue
        fields = line.split(",exec,", 1)[1].split(",")
        if len(fields) < 4:
            continue
        _engine, primitive, implementation, *rest = fields
        arguments: dict[str, Any] = {}
        types = re.findall(r"(src|wei|dst)\S*?:([a-z]+\d+)", line)
        arguments.update({f"{name}_type": kind for name, kind in types})
        shapes = _SHAPE.search(rest[-2]) if len(rest) >= 2 else None
        if shapes and primitive == "matmul":
            left, right = (list(map(int, part.split("x"))) for part in shapes.groups())
            arguments.update(m=left[-2], k=left[-1], n=right[-1])
            if len(left) > 2:
                arguments["batch"] = left[0]
        calls.append(LoggedCall("oneDNN", primitive, primitive, arguments, implementation))
    return calls
