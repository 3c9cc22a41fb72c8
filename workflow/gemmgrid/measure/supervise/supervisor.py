"""One cell, one run: starts fresh processes, watches them, and always says what happened.

Runs under the orchestrating Python: a backend that crashes, hangs or eats the memory ends its own
process, and this one records it.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from gemmgrid.measure.host import conditions, gpu
from gemmgrid.measure.machine.this_machine import ThisMachine
from gemmgrid.measure.supervise import feasible, process, software
from gemmgrid.measure.supervise.assemble import conclude
from gemmgrid.measure.supervise.environment import measured_environment, of_activation
from gemmgrid.measure.supervise.placement import LATER_S, Placement, lacking
from gemmgrid.measure.supervise.process import Outcome
from gemmgrid.measure.supervise.request import Request
from gemmgrid.records.context import digest, known
from gemmgrid.records.run import SCHEMA_VERSION, new_id, now
from gemmgrid.records.text import count
from gemmgrid.system import cgroup, project

SITE_PATH = "GEMMGRID_SITE_PYTHONPATH"
"""Variable in which the workflow hands on the PYTHONPATH that it was started with."""
GRACE_S = 5.0
"""Seconds past its share of the budget after which a process is taken to hang."""
EVIDENCE_S = 30.0
"""Seconds that the untimed evidence process may take."""


def measure_cell(
    request: Request, look: Callable[[], None], number: int | None = None
) -> dict[str, Any]:
    """Measure the cell's processes of one round (by default those of all); returns the run.

    look   called now and then while a process runs; what it raises ends the process and goes up
    """
    return _Supervisor(request, look, number).run()


def measure_more(
    request: Request, look: Callable[[], None], number: int, part: dict[str, Any]
) -> dict[str, Any] | None:
    """As many processes again as that part of a round lacks; None where the budget is spent."""
    supervisor = _Supervisor(request, look, number, part)
    run = supervisor.run()
    return run if run["invocations"] else None


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
        "states": [],
        "conditions": {"before": None, "after": None},
        "evidence": None,
        "unknown": {},
    }


class _Supervisor:
    def __init__(
        self,
        request: Request,
        look: Callable[[], None],
        number: int | None,
        part: dict[str, Any] | None = None,
    ) -> None:
        self.request, self.look = request, look
        self.number, self.part = number, part
        self.cell, self.settings = request.cell, request.settings
        self.device = request.spec["device"]
        self.activated = of_activation(request.environment.activation, request.spec["variables"])
        self.env, self.variables, self.dropped = measured_environment(
            self.cell.threads,
            self.device,
            request.spec["variables"],
            {
                name: value
                for name, value in {**os.environ, **request.environment.activation}.items()
                if name != "PYTHONPATH"
            },
            keep=self.activated,
        )
        # An interpreter of the site's own may find its packages through PYTHONPATH.
        inherited = os.environ.get(SITE_PATH) if request.environment.deploy == "none" else None
        self.paths = [request.spec["variables"].get("PYTHONPATH"), inherited]
        self.here = ThisMachine(self.device, self.env)
        self.sets = feasible.sets(self.cell, self.here.cache_bytes)
        self.gpu_watch = gpu.GpuWatch(gpu.used(self.device, self.env)[0])
        self.placement = Placement(request.trips, self.here.host["id"], self.cell.threads)
        self.document = self._blank()

    def run(self) -> dict[str, Any]:
        run, request = self.document, self.request
        problem = feasible.problem(request, self.here, self.sets)
        if problem:
            run["status"], run["reason"] = problem
            if request.environment.log_tail:
                run["failure"] = Outcome(stderr_tail=request.environment.log_tail).failure("start")
        else:
            run["conditions"]["before"] = before = self._conditions()
            with tempfile.TemporaryDirectory(prefix="gemmgrid-") as folder:
                paths = [str(project.importable(Path(folder))), *filter(None, self.paths)]
                self.env["PYTHONPATH"] = os.pathsep.join(paths)
                self._invoke_all(Path(folder))
                run["conditions"]["after"] = after = self._conditions(before)
                run["flags"] += conditions.judge(before, after)
                first = self.number in (None, 1) and not self.part
                if self._succeeded() and self.settings["evidence"] and first:
                    run["evidence"] = self._evidence(Path(folder))
            conclude(run, self.here.facts)
            seen = next((one["identity"] for one in run["invocations"] if "identity" in one), None)
            run["context"] = self._context(seen)
        run["ended_at"] = now()
        return run

    def _blank(self) -> dict[str, Any]:
        run = blank(self.request, self._context(None), self.variables, self.dropped)
        return {**run, "host": self.here.host, "gpu": self.here.gpu}

    def _conditions(self, previous: dict[str, Any] | None = None) -> dict[str, Any]:
        return conditions.read(self.device, previous, variables=self.env)

    def _context(self, identity: dict[str, Any] | None) -> dict[str, Any]:
        """Host, device and backend, each with its hash; `identity` tells what a process loaded."""
        environment = self.request.environment
        backend = software.backend_context(
            self.request.spec,
            # What activation sets comes from the packages, which are a part of the context.
            {name: one for name, one in self.variables.items() if name not in self.activated},
            environment.deploy,
            environment.prefix,
            environment.lock_hash,
        )
        if identity:
            backend = software.with_identity(backend, identity, environment.prefix)
        return {**self.here.context, "backend": backend, "backend_hash": digest(known(backend))}

    def _invoke_all(self, folder: Path) -> None:
        budget, start = self.settings["budget_s"], time.monotonic()
        total, rounds = self.settings["invocations"], self.settings["rounds"]
        chosen = [
            (index, index % rounds + 1)
            for index in range(total)
            if self.number in (None, index % rounds + 1)
        ]
        budget *= len(chosen) / total
        longest, done = 0.0, self.document["invocations"]
        if self.part:
            chosen = [(total + index, number) for index, number in chosen[: lacking(self.part)]]
            begun, ended = (
                datetime.fromisoformat(self.part[f"{at}_at"]) for at in ("started", "ended")
            )
            spent = max(0.0, (ended - begun).total_seconds())
            budget, longest = budget - spent, spent / len(self.part["invocations"])
        wanted = len(chosen)
        for index, round_number in chosen:
            remaining = budget - (time.monotonic() - start)
            if (done or self.part) and remaining < longest:
                self.document["flags"] += ["budget-spent"] if len(done) < wanted else []
                break
            share = remaining / max(1, wanted - len(done))
            invocation, seconds = self._invoke(folder, index, round_number, share, remaining)
            longest = max(longest, seconds)
            done.append(invocation)
            self.placement.add(invocation)
            if invocation["status"] != "ok":
                break
            # Of a round, others are started after the other cells' turns: `measure_more`.
            if (
                self.number is None
                and len(done) == len(chosen)
                and self.placement.another(done, wanted)
            ):
                chosen.append((index + rounds, round_number))
                time.sleep(LATER_S)
        self.document["states"] = self.placement.states

    def _invoke(
        self, folder: Path, index: int, round_number: int, soft_s: float, deadline_s: float
    ) -> tuple[dict[str, Any], float]:
        """One process: its document, completed with how it ended; and the seconds it took."""
        available = cgroup.available_bytes()
        memory = None if available is None else int(self.settings["memory_fraction"] * available)
        kills = cgroup.oom_kills()
        before = self._conditions()
        self.gpu_watch.begin()
        # What is known of it if it does not live to tell.
        invocation: dict[str, Any] = {
            **{"index": index, "round": round_number, "started_at": now()},
            **{"status": "env-failed", "reason": None, "flags": [], "stage": "start"},
            **{"failure": None, "unknown": {}},
        }
        job = self._job(index, round_number, soft_s, deadline_s)
        try:
            outcome, told = self._run(
                folder / f"{index}",
                "gemmgrid.measure.invocation",
                job,
                deadline_s + GRACE_S,
                memory,
            )
        except OSError as error:
            return invocation | {"reason": str(error), "failure": Outcome().failure("start")}, 0.0
        after = self._conditions(before)
        if told is None or (told["status"] == "ok" and told["stage"] != "done"):
            with suppress(OSError):
                stage = (folder / f"{index}/result.stage").read_text(encoding="ascii").strip()
                invocation["stage"] = stage or "start"
            killed = (cgroup.oom_kills() or 0) > (kills or 0)
            status, reason = outcome.died(invocation["stage"], killed, memory)
            if told:
                taken = count("sample", len(told["samples"]["elapsed_ns"]))
                reason += f"; what it timed is kept, unverified: {taken}"
            told = {**invocation, **(told or {}), "status": status, "reason": reason}
        invocation = told
        if invocation["status"] != "ok":
            invocation["failure"] = outcome.failure(invocation["stage"])
        elif outcome.warnings:
            invocation["warnings"] = outcome.warnings
        invocation["conditions"] = {"before": before, "after": after}
        invocation["flags"] = [
            *invocation.get("flags", []),
            *conditions.judge(before, after),
            *self.gpu_watch.flags,
        ]
        if self.gpu_watch.samples:
            invocation["conditions"]["during"] = self.gpu_watch.samples
        if outcome.stdout_tail:
            invocation["flags"].append("stdout-noise")
            invocation["stdout_tail"] = outcome.stdout_tail
        self.document["environment"]["python"] = invocation.get("identity", {}).get("python")
        return invocation, outcome.seconds

    def _run(
        self, folder: Path, module: str, job: dict[str, Any], deadline_s: float, memory: int | None
    ) -> tuple[Outcome, dict[str, Any] | None]:
        """How one of our modules ended in the backend's environment, and the document it left."""
        folder.mkdir()
        given, result = folder / "job.json", folder / "result.json"
        given.write_text(json.dumps(job), encoding="utf-8")
        command = [self.request.environment.python, "-s", "-m", module, str(given), str(result)]
        outcome = process.run(command, self.env, folder, deadline_s, memory, self._look)
        return outcome, _read_json(result)

    def _look(self) -> None:
        self.look()
        self.gpu_watch.look()

    def _job(self, index: int, round_number: int, soft_s: float, left_s: float) -> dict[str, Any]:
        spec = self.request.spec
        return {
            "cell": self.cell.to_json(),
            "settings": self.settings,
            "seed": self.request.seed,
            "index": index,
            "round": round_number,
            "soft_s": soft_s,
            "left_s": left_s,
            "expected_prefix": self.request.environment.prefix,
            "sets": self.sets,
            "cache_bytes": self.here.cache_bytes,
            **{key: spec[key] for key in ("backend", "adapter", "device", "blas", "options")},
        }

    def _succeeded(self) -> bool:
        invocations = self.document["invocations"]
        return bool(invocations) and all(one["status"] == "ok" for one in invocations)

    def _evidence(self, folder: Path) -> dict[str, Any]:
        """What really ran, from a process of its own; its failure leaves the timing as it is."""
        start, job = time.monotonic(), self._job(0, 1, EVIDENCE_S, EVIDENCE_S)
        try:
            outcome, told = self._run(
                folder / "evidence", "gemmgrid.measure.dispatch", job, EVIDENCE_S, None
            )
        except OSError as error:
            return {"status": "failed", "reason": str(error), "cost_s": 0.0}
        evidence = told or {}
        if not outcome.clean:
            status, reason = outcome.died("evidence", False, None)
            evidence |= {"status": "failed", "reason": f"{status}: {reason}"}
        return {**evidence, "cost_s": time.monotonic() - start}


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None
