"""One run → one row of the tables: everything a number owes its reader, derived in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmgrid.records import context
from gemmgrid.records.cell import PROTOCOL, Cell
from gemmgrid.records.foreign_runs import is_elsewhere
from gemmgrid.records.run import UNRANKED
from gemmgrid.records.statistics import WIDEST, Interval, interval, is_wide, mean, round_means
from gemmgrid.report import statistics
from gemmgrid.report.read import beside, evidence, foreign_runs, slurm
from gemmgrid.report.read.evidence import Evidence
from gemmgrid.report.read.fields import Fields, clean_lines
from gemmgrid.report.read.hardware import peak_gflops
from gemmgrid.report.read.plan_file import PlanView, measure_again
from gemmgrid.report.read.scan import CellFile
from gemmgrid.report.read.slurm import Slurm

RATES = (
    *("gflops", "gflops_low", "gflops_high", "time_s", "spread_low", "spread_high"),
    "best_gflops",
)
_INTERVAL = ("interval_kind", "interval_runs")
MOST_RUNS = 20
"""The latest runs of a cell, whose spread enters its interval."""
MISSING = "missing"
"""The status, in tables only, of a planned cell that has no run yet."""
_TEXTS = {
    **{path: path for path in ("adapter", "device", "expression", "id", "started_at")},
    "library": "library.name",
    "library_version": "library.version",
    "library_file": "library.file",
    "recorded_machine": "machine",
    "host_id": "host.id",
    "gpu": "gpu.name",
    "gpu_driver": "gpu.driver",
    "host_hash": "context.host_hash",
    "device_hash": "context.device_hash",
    "tool_version": "tool.version",
    "tool_commit": "tool.commit",
}
"""Columns that are texts of the run, and where it has them."""
_TIMES = ("first_call_s", "import_s", "call_overhead_ns")
"""Columns that are the median of what each invocation took."""

Timed = tuple[Fields, NDArray[np.float64]]
"""An invocation and its samples as seconds per call."""


class UnusableRunError(ValueError):
    """The run contradicts itself or its place; the text says how."""


@dataclass
class Row:
    """A run's row, and what the page needs beside it.

    values: the columns of the table; times_s: seconds per call, one a round, or one a process
    where there is one round only (empty unless ok); rounds_s: the same by round; began: when the
    first and the last process of each round did; estimate: of the time, with its error, None below
    two values; protocol: the way of measuring; context: host, device and backend, as
    records.context compares them; stderr: the end of what a failed process wrote; slurm: None
    outside SLURM; differences: why the run stands apart from its machine's, a sentence each;
    more_rounds: the command that measures the cell in as many rounds as a verdict needs.
    """

    values: dict[str, Any]
    times_s: list[float] = field(default_factory=list)
    rounds_s: dict[int, float] = field(default_factory=dict)
    began: dict[int, tuple[str, str]] = field(default_factory=dict)
    estimate: statistics.Estimate | None = None
    protocol: int = PROTOCOL
    context: dict[str, Any] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)
    stderr: str | None = None
    deploy: str | None = None
    slurm: Slurm | None = None
    differences: list[str] = field(default_factory=list)
    more_rounds: str | None = None

    @property
    def rounds(self) -> int:
        return len(self.rounds_s)

    @property
    def measured(self) -> bool:
        """Whether the run is ok: only then it has a rate."""
        return bool(self.times_s)

    @property
    def comparable(self) -> bool:
        """Measured with the threads that its name says: others enter no ranking or verdict."""
        return self.measured and UNRANKED.isdisjoint(self.flags)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.values["machine"], self.values["backend"], self.values["cell"]

    def __getitem__(self, column: str) -> Any:
        return self.values.get(column)

    def set_commands(self, plan: PlanView | None = None) -> None:
        """What measures the cell again, in its study: where it failed, or in enough rounds."""
        if not self.measured:
            self.values["retry"] = measure_again(self["path"], self.deploy, plan)
        self.more_rounds = measure_again(self["path"], self.deploy, plan, statistics.ROUNDS)

    @property
    def flags(self) -> list[str]:
        return str(self.values["flags"] or "").split(";") if self.values["flags"] else []


def reading_order(row: Row) -> tuple[Any, ...]:
    """Sorts rows as people compare them: like cells together, small before large."""
    shape = tuple(row[axis] or 0 for axis in ("m", "n", "k"))
    likeness = (row["routine"], row["dtype"], row["options"], shape, row["threads"])
    return (*likeness, row["machine"], row["backend"])


def cell_values(machine: str, backend: str, cell: Cell, path: str) -> dict[str, Any]:
    """The columns that the cell alone decides."""
    return {
        "machine": machine,
        "backend": backend,
        "routine": cell.routine,
        "dtype": cell.dtype,
        "m": cell.m,
        "n": cell.n,
        "k": cell.k,
        "threads": cell.threads,
        "options": cell.options.suffix.removeprefix("."),
        "cell": cell.name,
        "path": path,
    }


def from_run(
    run: dict[str, Any],
    file: CellFile,
    machine: dict[str, Any] | None = None,
) -> Row:
    """The row of one (migrated) run. UnusableRunError where it is not what its place says.

    The folder names the machine: a folder may be renamed to tell two machines apart. A run of
    another backend or cell than its file's is refused, and one flagged `other-machine` gets a
    machine's name of its own. machine: machine.json's content, for the peak.
    """
    fields = Fields(run)
    recorded = Cell.from_json(run["cell"])
    if recorded.name != file.cell.name:
        raise UnusableRunError(f"a run of {recorded.name} in the file of {file.cell.name}")
    if run["backend"] != file.backend:
        raise UnusableRunError(f"a run of backend {run['backend']!r} in the folder {file.backend}")
    path = file.path.as_posix()
    apart = is_elsewhere(run, machine)
    name = foreign_runs.name_of(file.machine, fields) if apart else file.machine
    row = Row(cell_values(name, file.backend, file.cell, path), protocol=recorded.protocol)
    row.slurm = slurm.read(fields)
    row.differences = foreign_runs.differences(fields, machine) if apart else []
    invocations = list(fields.parts("invocations"))
    values = row.values
    values.update(_facts(fields, invocations), file=path)
    values["apart_from"] = file.machine if apart else None
    values["difference"] = "; ".join(row.differences) or None
    ok = run["status"] == "ok"
    flags = dict.fromkeys(fields.texts("flags"))
    values.update(
        dict.fromkeys((*RATES, *beside.COLUMNS)),
        interval_kind=None,
        interval_runs=None,
        peak_share=None,
    )
    timed = _timed(invocations) if ok else []
    if ok:
        if not timed:
            raise UnusableRunError("status is ok, but no invocation holds samples")
        _measured(row, file.cell, timed)
        peak = peak_gflops(
            None if apart else machine,  # another machine's peak says nothing
            values["device"],
            file.cell.dtype,
            file.cell.threads,
            values["effective_precision"],
        )
        values["peak_share"] = values["gflops"] / peak if peak else None
        values |= beside.columns(run, file.cell, values, machine)
    values["status"], values["reason"] = run["status"], fields.text("reason")
    values["flags"] = ";".join(flag.replace(";", " ") for flag in flags)
    values["invocations"] = len(timed) if ok else len(invocations)
    values["samples"] = sum(len(times) for _, times in timed) if ok else None
    row.deploy = fields.text("environment.deploy")
    values["retry"] = None if ok else measure_again(path, row.deploy)
    row.evidence = evidence.read(fields)
    values["routine_seen"], values["routine_evidence"] = row.evidence.routine
    values["kernel_seen"], values["kernel_evidence"] = row.evidence.kernel
    values.update(_slurm(row.slurm))
    row.stderr = _said(fields)
    row.context = context.of_run(run)
    return row


def _said(fields: Fields) -> str | None:
    """The end of what a failed process wrote to stdout and to stderr."""
    failure = fields.mapping("failure")
    tails = [failure.get("stdout_tail"), failure.get("stderr_tail")]
    said = [text for text in tails if isinstance(text, str) and text.strip()]
    return clean_lines("\n".join(said)) or None


def over_runs(row: Row, history: Sequence[Row]) -> Row:
    """The row with an interval that holds the spread between the cell's runs in one context.

    history: of the same cell, the row's own run among them. Runs of another context or protocol,
    in another state, with other threads or not in rounds as this one is are no repetitions of it.
    """
    if row.estimate is None:
        return row
    alike = [
        one.estimate
        for one in history[-MOST_RUNS:]
        if one is not row and one.estimate and one.comparable and _repeats(one, row)
    ]
    wider = statistics.over_runs(row.estimate, alike)
    values = row.values | {"interval_runs": 1 + len(alike)}
    if wider is not row.estimate:
        limits = wider.interval() if 2 * wider.half <= log(WIDEST) else None
        values |= _limits(limits, row["gflops"] * row["time_s"])
        noisy = ["noisy"] if is_wide(limits) else []
        values["flags"] = ";".join(dict.fromkeys([*row.flags, *noisy]))
    return replace(row, values=values, estimate=wider)


def _repeats(one: Row, other: Row) -> bool:
    columns = ("interval_kind", "state")
    return (
        all(one[column] == other[column] for column in columns)
        and one.protocol == other.protocol
        and not context.changes(one.context, other.context)
    )


def standing(history: Sequence[Row]) -> Row:
    """A cell's row from its history, oldest first: the latest run, which alone may have a rate.

    Its interval is over all runs of its context. Where it failed and an earlier run was good, that
    one's rate and time stand in columns of their own.
    """
    latest = over_runs(history[-1], history)
    good = next((row for row in reversed(history) if row.measured), None)
    if latest.measured or good is None:
        return latest
    last_good = {"last_good_gflops": good["gflops"], "last_good_at": good["measured_at"]}
    return replace(latest, values=latest.values | last_good)


def _timed(invocations: Sequence[Fields]) -> list[Timed]:
    """The invocations that count, their samples as seconds per call, in the order taken."""
    timed = []
    for invocation in invocations:
        if invocation.text("aside"):  # it ran in another state of the machine than the best
            continue
        elapsed = invocation.sequence("samples.elapsed_ns")
        if elapsed and min(elapsed) <= 0:
            raise UnusableRunError("a sample took no time")
        inner = invocation.integer("inner") or 1
        if elapsed and invocation.text("status") in (None, "ok"):
            timed.append((invocation, np.asarray(elapsed, dtype=np.float64) / (inner * 1e9)))
    return timed


def _measured(row: Row, cell: Cell, timed: list[Timed]) -> None:
    """Give the row its times and rates in GFLOP/s (decimal), with the 95 % interval over rounds or
    processes and the quartiles of all samples."""
    rounds = [invocation.integer("round") or 1 for invocation, _ in timed]
    samples = [times for _, times in timed]
    medians = list(map(statistics.median, samples))
    row.rounds_s = round_means(medians, rounds)
    row.times_s = list(row.rounds_s.values()) if row.rounds > 1 else medians
    row.began = _began(rounds, [invocation.text("started_at") for invocation, _ in timed])
    row.estimate = statistics.estimate(row.times_s)
    time_s, work = mean(row.times_s), cell.flops / 1e9
    row.values |= {"time_s": time_s, "gflops": work / time_s, "best_gflops": work / min(medians)}
    row.values |= _limits(interval(row.times_s), work)
    if row.values["gflops_low"]:
        row.values |= {"interval_kind": "rounds" if row.rounds > 1 else "one-round"}
        row.values |= {"interval_runs": 1}
    quartiles = statistics.spread(np.concatenate(samples))
    if quartiles:
        row.values["spread_low"], row.values["spread_high"] = (
            work / quartiles[1],
            work / quartiles[0],
        )


def _limits(found: Interval | None, work: float) -> dict[str, float | None]:
    """The limits of the rate from those of the time."""
    known = found is not None and found.low > 0
    return {
        "gflops_low": work / found.high if found and known else None,
        "gflops_high": work / found.low if found and known else None,
    }


def _began(rounds: list[int], moments: list[str | None]) -> dict[int, tuple[str, str]]:
    """When the first and the last process of each round began, of rounds that tell it."""
    told: dict[int, list[str]] = {}
    for number, moment in zip(rounds, moments, strict=True):
        told.setdefault(number, []).append(moment or "")
    return {number: (min(all_), max(all_)) for number, all_ in told.items() if all(all_)}


def _facts(fields: Fields, invocations: list[Fields]) -> dict[str, Any]:
    """The columns that only repeat what the run says, or join what its invocations say."""
    moments = ("before", "after", "fresh")
    errors = [part.number(f"verify.{one}.rel_error") for part in invocations for one in moments]
    sizes = [part.number("result.componentwise") for part in invocations]
    bits = set(filter(None, (part.text("result.digest") for part in invocations)))
    precisions = dict.fromkeys(part.text("effective_precision") for part in invocations)
    stops = dict.fromkeys(part.text("stop") for part in invocations)
    seen = [number for part in invocations if (number := part.number("threads.seen")) is not None]
    return {
        **{column: fields.text(path) for column, path in _TEXTS.items()},
        "rel_error": max((error for error in errors if error is not None), default=None),
        "componentwise": max((size for size in sizes if size is not None), default=None),
        "bitwise": ("same" if len(bits) == 1 else "differs") if bits else None,
        "result_digest": bits.pop() if len(bits) == 1 else None,
        "effective_precision": "; ".join(filter(None, precisions)) or None,
        "threads_seen": round(min(seen)) if seen else None,
        "measured_at": fields.text("ended_at") or fields.text("started_at"),
        **{path: _middle(invocations, path) for path in _TIMES},
        **{
            event: _middle(invocations, f"counters.{event}") for event in ("switches", "migrations")
        },
        "order": fields.integer("order"),
        "stop": ";".join(filter(None, stops)) or None,
    }


def _slurm(job: Slurm | None) -> dict[str, Any]:
    """The columns about the job; all null outside SLURM."""
    found = job or Slurm()
    return {
        "slurm_node": found.node,
        "slurm_partition": found.partition,
        "slurm_job_id": found.job_id,
        "exclusive": found.exclusive,
        "slurm": job.text if job else None,
    }


def _middle(invocations: list[Fields], path: str) -> float | None:
    values = [value for value in (part.number(path) for part in invocations) if value is not None]
    return statistics.median(values) if values else None
