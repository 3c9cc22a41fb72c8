"""The job of one cell, as the workflow makes it, outside the workflow."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgrid.records.latest import beginning
from support import tool

NAME = "0-benchmark"


def lay_out(
    state: Path,
    machine: str,
    spec: Mapping[str, Any],
    out: Path,
    settings: Mapping[str, Any],
    place: Mapping[str, Any],
    seed: int = 1,
) -> list[str]:
    """Write what the job reads into the folder `state`; the command that measures into `out`.

    place   of the backend, as results/.plan/study.json has it: deploy, environment, python, modules
    """
    latest = (beginning(out) or {}).get("id")
    entry = {"path": str(out), "spec": spec, "order": None, "occasion": "benchmark"}
    block = {"block": NAME, "machine": machine, "cells": [{**entry, "latest": latest}]}
    study = {"settings": settings, "seed": seed, "tool": tool.describe()}
    study["backends"] = {spec["backend"]: place}
    (state / "blocks.jsonl").write_text(json.dumps(block, separators=(",", ":")) + "\n")
    (state / "study.json").write_text(json.dumps(study))
    command = [sys.executable, "-s", "-m", "gemmgrid", "block", NAME, "--round", "1"]
    command += ["--state", str(state), "--results", str(out.parents[2])]
    return [*command, "--token", str(state / "token")]
