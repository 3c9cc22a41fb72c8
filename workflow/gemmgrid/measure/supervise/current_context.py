"""What this machine's context is now, for the question which results still describe it.

Measures nothing, starts no backend and builds no environment: it reads the host, the GPU's driver,
and for each backend the packages that its environment holds and the library files that its last
runs named. `gemmgrid context --request JSON --out FILE`; a SLURM job runs it
on the node.

The request: {"machine", "backends": {name: {"adapter", "device", "options", "variables", "deploy",
"environment", "python", "prefix", "threads": [1, 2], "packages": [names], "libraries": [files]}}},
with packages and files as the runs' contexts name them, and python null where only environment
modules lead to it. The answer is described at `look`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgrid.measure.machine.this_machine import ThisMachine
from gemmgrid.measure.supervise import software
from gemmgrid.measure.supervise.environment import measured_environment
from gemmgrid.measure.supervise.supervisor import SITE_PATH
from gemmgrid.records import files, locks
from gemmgrid.records.run import now
from gemmgrid.system.project import find

SCHEMA = 1


def look(request: Mapping[str, Any]) -> dict[str, Any]:
    """{"schema", "at", "machine", "host", "devices": {device: …}, "backends": {name: …}}.

    host and each device are a run's context parts with their "id"; a backend has what
    `software.backend_context` gives, without library and precision, which only a process can tell;
    "by_threads" its variables for each thread count; "files" the fingerprint of each library file,
    null for one that is gone; "built" says whether its environment is here, "reason" why not.
    """
    here = ThisMachine("cpu")
    answer: dict[str, Any] = {
        "schema": SCHEMA,
        "at": now(),
        "machine": request["machine"],
        "host": {**here.context["host"], "id": here.host["id"]},
        "devices": {},
        "backends": {},
    }
    for name, wanted in request["backends"].items():
        device = wanted["device"]
        if device != "cpu" and device not in answer["devices"]:
            env = measured_environment(1, device, wanted["variables"]).env
            there = ThisMachine(device, env)
            found = there.context["device"] or {}
            answer["devices"][device] = found | ({"id": there.gpu["id"]} if there.gpu else {})
        answer["backends"][name] = _backend(wanted)
    return answer


def _backend(wanted: Mapping[str, Any]) -> dict[str, Any]:
    deploy, prefix = wanted["deploy"], wanted["prefix"]
    by_threads = {
        str(threads): software.in_force(
            measured_environment(threads, wanted["device"], wanted["variables"]).set_variables
        )
        for threads in wanted["threads"]
    }
    try:
        envs = find(
            Path(), f"envs/{wanted['environment']}.{'txt' if deploy == 'venv' else 'yaml'}"
        ).parent
        lock = locks.lock_hash(*locks.files_of(wanted["environment"], deploy, envs))
    except OSError:
        lock = None
    context = software.backend_context(wanted, {}, deploy, prefix, lock)
    if deploy == "none":
        path, python = os.environ.get(SITE_PATH), wanted["python"]
        asked = (software.ask_interpreter(python, wanted["packages"], path) if python else {}) or {}
        prefix = asked.get("prefix")
        context["packages"], context["python"] = asked.get("packages"), asked.get("python")
    for only_while_measuring in ("library", "precision", "variables"):
        del context[only_while_measuring]
    built = context["packages"] is not None
    if not built:
        # Nothing is there to compare with; what the lock says is known all the same.
        del context["packages"], context["python"]
    if deploy == "none":
        del context["lock"]
    files = {
        file: software.fingerprint(software.long_path(file, prefix))
        for file in (wanted["libraries"] if built else [])
    }
    return {
        "built": built,
        "reason": None if built else _why(wanted),
        "context": context,
        "by_threads": by_threads,
        "files": files,
    }


def _why(wanted: Mapping[str, Any]) -> str:
    if wanted["deploy"] != "none":
        return "its environment is not built here"
    if not wanted["python"]:
        return "its environment modules are loaded only while it is measured"
    return f"{wanted['python']} does not answer"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gemmgrid context", description=__doc__)
    parser.add_argument("--request", required=True, help="JSON, or @FILE")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    text = given.request
    if text.startswith("@"):
        text = Path(text[1:]).read_text(encoding="utf-8")
    answer = look(json.loads(text))
    files.write_atomically(given.out, (json.dumps(answer, indent=1) + "\n").encode())
    return 0
