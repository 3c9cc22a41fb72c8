"""One cell, one run: starts fresh processes, watches them, and always says what happened.

Standard library only, under the orchestrating Python: a backend that crashes, hangs or eats the
memory ends its own process, and this one records it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmgrid.measure.host import cgroup, conditions, software
from gemmgrid.measure.host.gpu_watch import GpuWatch
from gemmgrid.measure.host.identity import Whereabouts
from gemmgrid.measure.supervise import process
from gemmgrid.measure.supervise.assemble import conclude
from gemmgrid.measure.supervise.environment import measured_environment
from gemmgrid.measure.supervise.request import Request
from gemmgrid.records.context import digest, known
from gemmgrid.records.run import SCHEMA_VERSION, new_id, now

PACKAGE_FOLDER = Path(__file__).resolve().parents[3]
SITE_PATH = "GEMMGRID_SITE_PYTHONPATH"
"""Variable in which the workflow hands on the PYTHONPATH that it was started with."""
GRACE_S = 5.0
"""Seconds past its share of the budget after which a process is taken to hang."""
EVIDENCE_S = 30.0
"""Seconds that the untimed evidence process may take."""
WORKING_SETS = 3
"""Memory a cell needs: its operands, a second set for the last check, and the library's buffers."""
DEVICE_SETS = 2
"""The same on a GPU: the operands, and a second set for the last check."""
INTERPRETER_BYTES = 200 << 20
"""Memory of Python, NumPy and a library before any operand."""


def measure_cell(
    request: Request, look: Callable[[], None], rounds: list[int] | None = None
) -> dict[str, Any]:
    """Measure the cell's processes of these rounds (all of them by default); returns the run.

    look   called now and then while a process runs; what it raises ends the process and goes up
    """
    return _Supervisor(request, look).run(rounds)


def blank(
    request: Request,
    context: dict[str, Any],
    variables: dict[str, str],
    dropped: dict[str, str],
) -> dict[str, Any]:
    """A run before anything is measured: lost, and nothing known of where."""
    environment, started = request.environment, now()
    return {
        "schema": SCHEMA_VERSION,
        "id": new_id(started),
        "tool": request.tool,
        "started_at": started,
        "ended_at": None,
        "machine": request.machine,
        "backend": request.backend,
        "adapter": request.spec["adapter"],
        "device": request.spec["device"],
        "cell": request.cell.to_json(),
        "status": "lost",
        "reason": None,
        "flags": [],
        "spec": digest(request.spec),
        "failure": None,
        "host": {"id": None},
        "gpu": None,
        "slurm": None,
        "promise": None,
        "context": context,
        "environment": {
            "deploy": environment.deploy,
            "name": environment.name,
            "prefix": environment.prefix,
            "python": None,
            "packages": environment.packages,
            "lock_hash": environment.lock_hash,
            "variables": variables,
            "dropped_variables": dropped,
        },
        "expression": None,
        "library": None,
        "settings": request.settings,
        "order": request.order,
        "invocations": [],
        "conditions": {"before": None, "after": None},
        "evidence": None,
        "unknown": {},
    }


class _Supervisor:
    def __init__(self, request: Request, look: Callable[[], None]) -> None:
        self.request, self.look = request, look
        self.cell, self.settings = request.cell, request.settings
        self.device = request.spec["device"]
        self.where = Whereabouts(self.device)
        self.gpu_watch = GpuWatch(self.device, self.where.gpu_index)
        self.env, self.variables, self.dropped = measured_environment(
            self.cell.threads,
            self.device,
            request.spec["variables"],
            {
                name: value
                for name, value in {**os.environ, **request.environment.activation}.items()
                if name != "PYTHONPATH"
            },
        )
        # An interpreter of the site's own may find its packages through PYTHONPATH.
        inherited = os.environ.get(SITE_PATH) if request.environment.deploy == "none" else None
        paths = [str(PACKAGE_FOLDER), request.spec["variables"].get("PYTHONPATH"), inherited]
        self.env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self.document = self._blank()

    def run(self, rounds: list[int] | None) -> dict[str, Any]:
        run = self.document
        problem = self._cannot()
        if problem:
            run["status"], run["reason"] = problem
            if self.request.environment.log_tail:
                run["failure"] = _failure("start", stderr_tail=self.request.environment.log_tail)
        else:
            run["conditions"]["before"] = before = conditions.read(self.device)
            with tempfile.TemporaryDirectory(prefix="gemmgrid-") as folder:
                self._invoke_all(Path(folder), rounds or [])
                run["conditions"]["after"] = after = conditions.read(self.device, before)
                run["flags"] += conditions.judge(before, after)
                if self._succeeded() and self.settings["evidence"] and (rounds or [1])[0] == 1:
                    run["evidence"] = self._evidence(Path(folder))
            conclude(run, self.where.facts)
            seen = next((one["identity"] for one in run["invocations"] if "identity" in one), None)
            run["context"] = self._context(seen)
        run["ended_at"] = now()
        return run

    def _blank(self) -> dict[str, Any]:
        run = blank(self.request, self._context(None), self.variables, self.dropped)
        return {**run, "host": self.where.host, "gpu": self.where.gpu}

    def _context(self, identity: dict[str, Any] | None) -> dict[str, Any]:
        """Host, device and backend, each with its hash; `identity` tells what a process loaded."""
        environment = self.request.environment
        backend = software.backend_context(
            self.request.spec,
            self.variables,
            environment.deploy,
            environment.prefix,
            environment.lock_hash,
        )
        if identity:
            backend = software.with_identity(backend, identity, environment.prefix)
        return {**self.where.context, "backend": backend, "backend_hash": digest(known(backend))}

    def _cannot(self) -> tuple[str, str] | None:
        """Status and reason when it is known beforehand that nothing can be measured."""
        environment = self.request.environment
        if environment.problem:
            return "env-failed", environment.problem
        if shutil.which(environment.python) is None:
            return "env-failed", f"there is no Python at {environment.python}"
        available = cgroup.available_bytes()
        needed = WORKING_SETS * self.cell.operand_bytes + INTERPRETER_BYTES
        if available is not None and needed > self.settings["memory_fraction"] * available:
            return "infeasible", (
                f"needs about {needed / 1e9:.1f} GB of memory; {available / 1e9:.1f} GB are free "
                f"and budget.memory_fraction allows {self.settings['memory_fraction']:.0%} of them"
            )
        card = self.where.gpu_memory_bytes
        on_card = DEVICE_SETS * self.cell.operand_bytes
        if card is not None and on_card > self.settings["memory_fraction"] * card:
            return "infeasible", (
                f"needs about {on_card / 1e9:.1f} GB on the GPU, which has {card / 1e9:.1f} GB, "
                f"and budget.memory_fraction allows {self.settings['memory_fraction']:.0%} of them"
            )
        return None

    def _invoke_all(self, folder: Path, rounds: list[int]) -> None:
        budget, start = self.settings["budget_s"], time.monotonic()
        total, all_rounds = self.settings["invocations"], self.settings["rounds"]
        chosen = [
            (index, index % all_rounds + 1)
            for index in range(total)
            if not rounds or index % all_rounds + 1 in rounds
        ]
        budget *= len(chosen) / total
        longest = 0.0
        for position, (index, round_number) in enumerate(chosen):
            remaining = budget - (time.monotonic() - start)
            if position and remaining < longest:
                self.document["flags"].append("budget-spent")
                break
            share = remaining / (len(chosen) - position)
            invocation, seconds = self._invoke(folder, index, round_number, share, remaining)
            longest = max(longest, seconds)
            self.document["invocations"].append(invocation)
            if invocation["status"] != "ok":
                break

    def _invoke(
        self, folder: Path, index: int, round_number: int, soft_s: float, deadline_s: float
    ) -> tuple[dict[str, Any], float]:
        """One process: its document, completed with how it ended; and the seconds it took."""
        inside = folder / f"{index}"
        inside.mkdir()
        result = inside / "result.json"
        job = self._job(index, round_number, soft_s)
        (inside / "job.json").write_text(json.dumps(job))
        command = self._python("gemmgrid.measure.invocation", inside / "job.json", result)
        available = cgroup.available_bytes()
        memory = None if available is None else int(self.settings["memory_fraction"] * available)
        kills = cgroup.oom_kills()
        before = conditions.read(self.device)
        self.gpu_watch.begin()
        try:
            outcome = process.run(
                command, self.env, inside, deadline_s + GRACE_S, memory, self._look
            )
        except OSError as error:
            return self._failed(index, round_number, "env-failed", str(error), None, "start"), 0.0
        after = conditions.read(self.device, before)
        invocation = _read_json(result)
        if invocation is None:
            stage = _read_text(result.with_suffix(".stage")) or "start"
            killed = (cgroup.oom_kills() or 0) > (kills or 0)
            status, reason = _died(outcome, stage, killed, memory)
            invocation = self._failed(index, round_number, status, reason, outcome, stage)
        elif invocation["status"] != "ok":
            invocation["failure"] = _failure(
                invocation["stage"],
                outcome.exit_code,
                outcome.signal,
                outcome.stderr_tail,
            )
        invocation["conditions"] = {"before": before, "after": after}
        invocation["flags"] = [
            *invocation.get("flags", []),
            *conditions.judge(before, after),
            *self.gpu_watch.flags(),
        ]
        if self.gpu_watch.samples:
            invocation["conditions"]["during"] = self.gpu_watch.samples
        if outcome.stdout_tail:
            invocation["flags"].append("stdout-noise")
            invocation["stdout_tail"] = outcome.stdout_tail
        self.document["environment"]["python"] = invocation.get("identity", {}).get("python")
        return invocation, outcome.seconds

    def _look(self) -> None:
        self.look()
        self.gpu_watch.look()

    def _job(self, index: int, round_number: int, soft_s: float) -> dict[str, Any]:
        spec = self.request.spec
        return {
            "cell": self.cell.to_json(),
            "settings": self.settings,
            "seed": self.request.seed,
            "index": index,
            "round": round_number,
            "soft_s": soft_s,
            "expected_prefix": self.request.environment.prefix,
            "cache_bytes": self.where.cache_bytes,
            **{key: spec[key] for key in ("backend", "adapter", "device", "blas", "options")},
        }

    def _python(self, module: str, *arguments: Path) -> list[str]:
        return [self.request.environment.python, "-s", "-m", module, *map(str, arguments)]

    def _succeeded(self) -> bool:
        invocations = self.document["invocations"]
        return bool(invocations) and all(one["status"] == "ok" for one in invocations)

    def _evidence(self, folder: Path) -> dict[str, Any]:
        """What really ran, from a process of its own; its failure leaves the timing as it is."""
        inside = folder / "evidence"
        inside.mkdir()
        (inside / "job.json").write_text(json.dumps(self._job(0, 1, EVIDENCE_S)))
        result = inside / "evidence.json"
        command = self._python("gemmgrid.measure.dispatch", inside / "job.json", result)
        start = time.monotonic()
        try:
            outcome = process.run(command, self.env, inside, EVIDENCE_S, None, self.look)
        except OSError as error:
            return {"status": "failed", "reason": str(error), "cost_s": 0.0}
        evidence = _read_json(result) or {}
        if not outcome.clean:
            status, reason = _died(outcome, "evidence", False, None)
            evidence |= {"status": "failed", "reason": f"{status}: {reason}"}
        evidence["cost_s"] = time.monotonic() - start
        return evidence

    def _failed(
        self,
        index: int,
        round_number: int,
        status: str,
        reason: str,
        outcome: process.Outcome | None,
        stage: str,
    ) -> dict[str, Any]:
        return {
            "index": index,
            "round": round_number,
            "started_at": now(),
            "status": status,
            "reason": reason,
            "flags": [],
            "stage": stage,
            "failure": _failure(
                stage,
                outcome.exit_code if outcome else None,
                outcome.signal if outcome else None,
                outcome.stderr_tail if outcome else None,
            ),
            "unknown": {},
        }


def _died(
    outcome: process.Outcome, stage: str, oom_killed: bool, memory: int | None
) -> tuple[str, str]:
    """Status and reason of a process that ended without a document."""
    if outcome.timed_out:
        return "timeout", f"no answer after {outcome.seconds:.0f} s (stage: {stage})"
    if outcome.over_memory:
        return (
            "oom",
            f"outgrew {(memory or 0) / 1e9:.1f} GB (budget.memory_fraction; stage: {stage})",
        )
    if outcome.signal == "SIGKILL" and oom_killed:
        return "oom", f"killed by the kernel for memory (stage: {stage})"
    if outcome.signal:
        return "crashed", f"ended by {outcome.signal} (stage: {stage})"
    last = outcome.stderr_tail.splitlines()[-1:] or ["no message"]
    status = "env-failed" if stage == "start" else "crashed"
    return status, f"exit code {outcome.exit_code} (stage: {stage}): {last[0][:300]}"


def _failure(
    stage: str,
    exit_code: int | None = None,
    signal: str | None = None,
    stderr_tail: str | None = None,
) -> dict[str, Any]:
    return {
        "stage": stage,
        "exit_code": exit_code,
        "signal": signal,
        "stderr_tail": stderr_tail or "",
    }


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
