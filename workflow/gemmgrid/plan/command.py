"""`gemmgrid plan --config JSON --deploy venv …` writes the plan of a start.

Into results/.plan: plan.jsonl (every cell, for the report), study.json (what all jobs share),
blocks.jsonl (the cells of each job) and progress.json (how many there are to measure).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gemmgrid
from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.environments import interpreter
from gemmgrid.plan.grid.expand import PlannedCell
from gemmgrid.plan.jobs import blocks as dividing
from gemmgrid.plan.jobs.needed import Histories
from gemmgrid.plan.jobs.outlook import outlook
from gemmgrid.plan.plan import Plan, load
from gemmgrid.records import history
from gemmgrid.records.context import digest
from gemmgrid.records.files import write_atomically
from gemmgrid.records.text import count
from gemmgrid.system.project import PROJECT

SAMPLING = (
    "invocations",
    "rounds",
    "warmup_s",
    "sample_s",
    "min_samples",
    "max_samples",
    "batch_s",
)
"""Settings that make a cell's number firmer, and whose change measures nothing again by itself."""


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    try:
        plan = load(json.loads(given.config), given.root, given.deploy, given.files, given.modules)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    turns = dividing.of_turns(given.turns)
    cells = [cell for cell in plan.cells if cell.order in turns]
    histories, parts = Histories(plan), given.state / "parts"
    blocks = dividing.divide(cells, histories, parts, json.loads(given.sizes))
    if given.blocks and digest([block.name for block in blocks]) != given.blocks:
        print("results have changed since this start began: start again", file=sys.stderr)
        return 1
    _remove_leftovers(given.state, plan, histories)
    plan.write(given.state / "plan.jsonl", [str(path) for path in given.files])
    dividing.write(given.state / "blocks.jsonl", blocks)
    jobs = sum(len(block.cells) * len(block.rounds) for block in blocks)
    # On nodes a cell counts when it has arrived; here every round of a cell counts.
    progress = {"total": len(cells) if plan.machines else jobs, "seconds": []}
    write_atomically(given.state / "progress.json", json.dumps(progress).encode())
    study = {
        "study": plan.study,
        "digest": plan.whole_digest([str(path) for path in given.files]),
        "settings": plan.settings,
        "seed": plan.seed,
        "tool": describe_tool(PROJECT),
        "promises": plan.promises,
        "backends": _places(plan, given.root),
    }
    write_atomically(given.state / "study.json", json.dumps(study).encode())
    if cells:
        print(outlook(plan, len(cells)), file=sys.stderr)
    if text := _other_settings(plan, cells):
        print(f"gemmgrid: {text}", file=sys.stderr)
    return 0


def _other_settings(plan: Plan, due: Sequence[PlannedCell]) -> str | None:
    """What to know of cells that keep a run which was sampled in another way; None without any."""
    measured = {cell.path for cell in due}
    paths = [Path(cell.path) for cell in plan.cells if cell.path not in measured]
    kept = [run for path in paths if path.exists() and (run := history.latest(path))]
    changes: dict[str, None] = {}
    others = 0
    for run in kept:
        before = run.get("settings") or {}
        found = [
            f"{key} {before[key]} → {plan.settings[key]}"
            for key in SAMPLING
            if key in before and before[key] != plan.settings[key]
        ]
        others += bool(found)
        changes |= dict.fromkeys(found)
    if not others:
        return None
    shown = ", ".join([*changes][:3]) + (", …" if len(changes) > 3 else "")
    return (
        f"{count('cell', others)} measured with other sampling ({shown}) "
        f"{'keeps its run' if others == 1 else 'keep their runs'}; to measure again: -F, "
        "or refresh --config only=all"
    )


def _places(plan: Plan, root: Path) -> dict[str, dict[str, Any]]:
    """Where each backend is measured: its environment, how that is made, interpreter, modules."""
    return {
        name: {
            "deploy": "none" if backend.of_site else plan.deploy,
            "environment": backend.environment,
            "python": interpreter(backend, plan.deploy, root),
            "modules": list(backend.modules),
        }
        for name, backend in plan.backends.items()
    }


def _remove_leftovers(state: Path, plan: Plan, histories: Histories) -> None:
    """Remove what earlier starts left of the plan's cells and no run will use: parts of occasions
    that are over, tokens, which say only that a job of their own start has ended, and its log."""
    for file in (*(state / "tokens").glob("*/*"), *(state / "logs").glob("*/*-*.*.log")):
        file.unlink(missing_ok=True)
    by_place = {(cell.machine, cell.backend, cell.name): cell for cell in plan.cells}
    for file in (state / "parts").glob("*/*/*.json"):
        name, occasion, _ = file.stem.rsplit(".", 2)
        cell = by_place.get((file.parts[-3], file.parts[-2], name))
        if cell and histories.occasion(cell) != occasion:
            file.unlink(missing_ok=True)


def describe_tool(root: Path) -> Mapping[str, Any]:
    """Version, commit and whether files were changed since, for the records."""

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(root), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    changed = git("status", "--porcelain", "--untracked-files=no")
    return {
        "version": gemmgrid.__version__,
        "commit": git("rev-parse", "HEAD"),
        "dirty": None if changed is None else bool(changed),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gemmgrid plan", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder with config/ and envs/")
    parser.add_argument("--config", required=True, help="the merged config, as JSON")
    parser.add_argument(
        "--files", type=Path, nargs="*", default=[], help="those it was merged from"
    )
    parser.add_argument("--deploy", choices=("venv", "conda", "none"), required=True)
    parser.add_argument("--modules", action="store_true", help="environment modules are loaded")
    parser.add_argument("--state", type=Path, default=Path("results/.plan"))
    parser.add_argument("--turns", default="", help="of the cells to measure: 0-41,44")
    parser.add_argument("--sizes", default="{}", help="cells of a block by machine, as JSON")
    parser.add_argument("--blocks", help="the digest of the names that the blocks must have")
    return parser
