"""Why a SLURM job ended, in SLURM's own words: from sacct, or from the controller's memory."""

from __future__ import annotations

import pwd
import re
from dataclasses import dataclass

from gemmgrid.plan.slurm.ask import Asking, ask, minutes, records, value

OUT_OF_MEMORY = 125
"""The signal by which SLURM's accounting says that a step ran out of memory (DerivedExitCode)."""
_COLUMNS = (
    *("JobID", "State", "ExitCode", "DerivedExitCode", "Reason", "NodeList"),
    *("Timelimit", "ReqMem", "MaxRSS", "Partition"),
)
_UNFINISHED = frozenset({"PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "COMPLETING"})
_SAID_BY_STATE = frozenset(
    {
        *("none", "(null)", "timelimit", "outofmemory", "nodedown", "preempted", "deadline"),
        *("nonzeroexitcode", "boot_fail", "cancelled"),
    }
)
"""SLURM's reasons, in lower case, that say no more than the job's state."""


@dataclass(frozen=True)
class Outcome:
    """How a job ended. state is None where SLURM does not know the job any more."""

    job: str
    state: str | None
    text: str
    node: str | None = None
    partition: str | None = None

    def lost(self) -> dict[str, str | None]:
        """What a run of a lost cell says of it."""
        return {
            "reason": self.text,
            "job_id": self.job or None,
            "node": self.node,
            "partition": self.partition,
        }


@dataclass(frozen=True)
class _Facts:
    """What either source says of a job, in SLURM's spelling; None or "" where it does not."""

    job: str
    state: str
    nodes: str | None
    partition: str | None
    limit: str | None = None
    exit_code: str | None = None
    reason: str | None = None
    memory: str | None = None
    most_memory_mb: float = 0.0
    canceller: str | None = None

    def outcome(self) -> Outcome:
        node = None if self.nodes in (None, "", "None assigned", "(null)", "None") else self.nodes
        place = f" on {node}" if node else ""
        reason = ""
        if self.reason and self.reason.replace(" ", "").casefold() not in _SAID_BY_STATE:
            reason = f" (reason: {self.reason})"
        text = f"{self.state}: SLURM job {self.job}{place} {self._what_happened()}{reason}"
        return Outcome(self.job, self.state, text, node, self.partition or None)

    def _what_happened(self) -> str:
        match self.state:
            case "TIMEOUT":
                limit = minutes(self.limit)
                spelled = f" of {_spelled(limit)}" if limit is not None else ""
                return f"reached its time limit{spelled}"
            case "OUT_OF_MEMORY":
                return f"ran out of memory{self._memory()}"
            case "NODE_FAIL":
                return "ended when the node failed"
            case "BOOT_FAIL":
                return "did not start: the node did not boot"
            case "PREEMPTED":
                return "had to make way for another job"
            case "DEADLINE":
                return "passed its deadline"
            case "CANCELLED":
                return "was cancelled" + (f" by {self.canceller}" if self.canceller else "")
            case "FAILED":
                return f"failed{self._exit()}"
            case "COMPLETED":
                return "ended without an error"
            case _:
                return "was lost sight of: SLURM's queue does not list it any more"

    def _memory(self) -> str:
        asked = re.fullmatch(r"([\d.]+)([KMGT])([nc]?)", self.memory or "")
        if not asked or float(asked[1]) == 0:
            return ""
        each = " for each CPU" if asked[3] == "c" else ""
        seen = f" ({self.most_memory_mb:.0f} MB were seen in use)" if self.most_memory_mb else ""
        return (
            f": it had asked for {asked[1]} {asked[2]}B{each}{seen}; memory_mb in "
            "config/machines.yaml asks for more"
        )

    def _exit(self) -> str:
        code, _, signal = (self.exit_code or "").partition(":")
        if signal not in ("", "0"):
            return f": signal {signal} ended it"
        return f" with exit code {code}" if code.isdecimal() else ""


def outcome_of(job: str, asking: Asking = ask) -> Outcome:
    """The outcome of one job. Never raises."""
    accounted = asking("sacct", "-P", "-n", "-j", job, f"--format={','.join(_COLUMNS)}")
    found = from_accounting(job, _rows(accounted.text or ""))
    # The accounting may lag behind, or have missed the end.
    if found is not None and found.state not in _UNFINISHED:
        return found
    answer = asking("scontrol", "-o", "show", "job", job)
    remembered = from_controller(job, answer.text or "")
    if remembered is not None and (found is None or remembered.state not in _UNFINISHED):
        return remembered
    if found is not None:
        return found
    accounting = accounted.reason or "its accounting does not list it"
    return Outcome(
        job, None, f"SLURM does not know job {job} any more ({accounting}; {answer.reason})"
    )


def from_accounting(job: str, rows: list[dict[str, str]]) -> Outcome | None:
    """From the rows of sacct, the job's own and its steps'; None where there are none."""
    own = next((row for row in rows if row["JobID"] == job), None)
    if own is None:
        return None
    state, *by = own["State"].split() or ["UNKNOWN"]
    if state == "FAILED" and any(_ran_out(row) for row in rows):
        state = "OUT_OF_MEMORY"
    return _Facts(
        job=job,
        state=state,
        nodes=own["NodeList"],
        partition=own["Partition"],
        limit=own["Timelimit"],
        exit_code=own["ExitCode"],
        reason=own["Reason"],
        memory=own["ReqMem"],
        most_memory_mb=max(_megabytes(row["MaxRSS"]) for row in rows),
        canceller=_user(by[-1]) if by else None,
    ).outcome()


def from_controller(job: str, text: str) -> Outcome | None:
    """From `scontrol -o show job`, which remembers ended jobs for MinJobAge; None without any."""
    line = next(records(text, "JobId"), None)
    if line is None:
        return None
    state = value(line, "JobState") or "UNKNOWN"
    codes = [value(line, key) or "" for key in ("ExitCode", "DerivedExitCode")]
    if state == "FAILED" and any(code.endswith(f":{OUT_OF_MEMORY}") for code in codes):
        state = "OUT_OF_MEMORY"
    return _Facts(
        job=job,
        state=state,
        nodes=value(line, "NodeList"),
        partition=value(line, "Partition"),
        limit=value(line, "TimeLimit"),
        exit_code=codes[0],
        reason=value(line, "Reason"),
        memory=value(line, "MinMemoryNode"),
    ).outcome()


def _rows(text: str) -> list[dict[str, str]]:
    rows = [line.split("|") for line in text.splitlines()]
    return [dict(zip(_COLUMNS, row, strict=True)) for row in rows if len(row) == len(_COLUMNS)]


def _ran_out(row: dict[str, str]) -> bool:
    codes = (row["ExitCode"], row["DerivedExitCode"])
    return row["State"] == "OUT_OF_MEMORY" or any(
        code.endswith(f":{OUT_OF_MEMORY}") for code in codes
    )


def _user(uid: str) -> str:
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except (ValueError, KeyError, OverflowError):
        return f"user {uid}"


def _megabytes(text: str) -> float:
    match = re.fullmatch(r"([\d.]+)([KMGT]?)", text)
    factors = {"": 1 / (1 << 20), "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": float(1 << 20)}
    return float(match[1]) * factors[match[2]] if match else 0.0


def _spelled(count: int) -> str:
    """Minutes in words: 1 minute, 90 minutes, 3 h, 2 h 5 min."""
    if count < 120:
        return "1 minute" if count == 1 else f"{count} minutes"
    hours, rest = divmod(count, 60)
    return f"{hours} h" + (f" {rest} min" if rest else "")


def refused(message: str) -> Outcome:
    """The outcome of a job that SLURM did not take, from what sbatch said."""
    text = " ".join(message.split()) or "sbatch was interrupted"
    if re.search(r"submit limit|MaxSubmit|MaxJobCount|QOSMax\w*Submit", text, re.I):
        text += " (with fewer allocations at a time it may: --jobs N, or more cells_per_allocation)"
    return Outcome("", "REFUSED", f"REFUSED: SLURM did not take the job: {text}")
