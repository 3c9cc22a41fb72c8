"""Evidence in plain words, for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WIDTH = 96
_LABEL = 13
HOW = {
    "traced": "traced: the calls were intercepted while the product ran",
    "logged": "logged: the library's own log or compiled program says so",
    "sampled": "sampled: the processor was interrupted at random and found there",
    "documented": "expected: the library's source says so; it was not seen to run",
}


def tell(explanation: dict[str, Any]) -> str:
    """The whole answer: what was asked, what ran, where, what was hidden, how we know."""
    evidence = explanation["evidence"]
    shape = " × ".join(map(str, explanation["shape"]))
    threads = explanation["threads"]
    lines = [
        explanation["expression"],
        f"{explanation['backend']}, {explanation['dtype']}, m × n × k = {shape}, "
        f"{threads} {'thread' if threads == 1 else 'threads'}",
        "",
    ]
    if explanation["statement"] != explanation["expression"]:
        lines += _block("run as", [explanation["statement"]])
    lines += _block("ran", _routines(evidence))
    lines += _block("kernel", _kernels(evidence))
    lines += _block("library", _library(explanation))
    lines += _block("hidden", _hidden(evidence["hidden"]))
    if evidence["reason"]:
        lines += _block("note", [evidence["reason"]])
    if evidence["inconsistent"]:
        lines += _block("but", [f"inconsistent: {evidence['inconsistent']}"])
    lines += _block("how we know", _knowledge(evidence))
    return "\n".join(lines)


def _routines(evidence: dict[str, Any]) -> Iterable[str]:
    if evidence["no_blas"] and not evidence["routines"]:
        proof = evidence["no_blas"]
        yield (
            f"no BLAS: {proof['share']:.0%} of the time was spent in {proof['function']}, and none "
            f"of {proof['slots_watched']} watched addresses of BLAS routines was called [sampled]"
        )
    for routine in evidence["routines"]:
        if routine["evidence"] == "unknown":
            yield f"unknown: {routine['reason']}"
            continue
        times = f", {_times(routine['count'])}" if routine["count"] else ""
        yield f"{_title(routine)}{times} [{_mark(routine)}]"
        if routine["args"]:
            yield "   with " + ", ".join(f"{k}={_value(v)}" for k, v in routine["args"].items())
        if routine["caller"]:
            yield f"   called by {Path(routine['caller']).name}"
        if routine["reason"]:
            yield f"   {routine['reason']}"
        if routine["source"]:
            yield f"   source: {routine['source']}"


def _title(routine: dict[str, Any]) -> str:
    """sgemm (scipy_cblas_sgemm64_): the routine, and the symbol where that is another word."""
    name, symbol = routine["routine"], routine["symbol"]
    return f"{name} ({symbol})" if name and symbol and name != symbol else symbol or name


def _mark(part: dict[str, Any]) -> str:
    return "expected" if part["evidence"] == "documented" else str(part["evidence"])


def _kernels(evidence: dict[str, Any]) -> Iterable[str]:
    for kernel in evidence["kernels"]:
        if kernel["name"] is None:
            yield f"unknown: {kernel['reason']}"
            continue
        details = [
            _times(kernel["count"]) if kernel["count"] else "",
            f"chosen for core {kernel['core']}" if kernel["core"] else "",
            f"{kernel['share']:.0%} of the time" if kernel["share"] is not None else "",
        ]
        told = "".join(f", {detail}" for detail in details if detail)
        yield f"{kernel['name']}{told} [{_mark(kernel)}]"
        if kernel["source"]:
            yield f"   source: {kernel['source']}"


def _library(explanation: dict[str, Any]) -> Iterable[str]:
    """The file that ran, and what the adapter's library calls itself if it is that file."""
    evidence, told = explanation["evidence"], explanation["library"] or {}
    files = [part["library"] for part in (*evidence["routines"], *evidence["kernels"])]
    seen = list(dict.fromkeys(file for file in files if file))
    name = " ".join(str(told[key]) for key in ("name", "version") if told.get(key))
    if name and told.get("file") and any(_same(told["file"], file) for file in seen):
        yield name
    elif name:
        yield f"{name} (loaded, but not seen to run here)" if told.get("file") else name
    yield from seen


def _same(one: str, other: str) -> bool:
    return Path(one).name == Path(other).name


def _hidden(hidden: list[dict[str, Any]]) -> Iterable[str]:
    for work in hidden:
        size = f" ({work['bytes']:,} bytes)" if work["bytes"] else ""
        yield f"{work['explanation']}{size}"
    if not hidden:
        yield "nothing was seen"


def _knowledge(evidence: dict[str, Any]) -> Iterable[str]:
    """What each mark means here, what was looked at, and what could not be."""
    parts = [*evidence["routines"], *evidence["kernels"]]
    marks = {part["evidence"] for part in parts} | ({"sampled"} if evidence["no_blas"] else set())
    for mark, meaning in HOW.items():
        if mark in marks:
            yield meaning
    if evidence["slots_watched"]:
        yield (
            f"{evidence['slots_watched']} addresses through which this process calls BLAS were "
            f"watched"
        )
    counts = [kernel["samples"] for kernel in evidence["kernels"] if kernel["samples"]]
    if counts:
        yield f"{max(counts)} samples were taken"
    for reason in dict.fromkeys(evidence["problems"].values()):
        yield f"not available: {reason}"


def _block(label: str, parts: Iterable[str]) -> list[str]:
    lines: list[str] = []
    for part in parts:
        indent = len(part) - len(part.lstrip())
        lines += textwrap.wrap(
            part.strip(),
            WIDTH - _LABEL - indent,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 3),
            break_long_words=False,
            break_on_hyphens=False,
        )
    margin = max(_LABEL, len(label) + 2)
    first, *rest = lines or [""]
    return [f"{label:{margin}}{first}", *(" " * _LABEL + line for line in rest)]


def _times(count: int) -> str:
    return "1 call" if count == 1 else f"{count:,} calls"


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
