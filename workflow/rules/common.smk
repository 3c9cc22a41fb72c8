# The plan is made once, at parse time, from the merged config; every rule looks things up in it.

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from snakemake.logging import logger
from snakemake.utils import min_version

min_version("9.0")

ROOT = Path(str(workflow.current_basedir)).parents[1]
PACKAGE = str(ROOT / "workflow")
sys.path.insert(0, PACKAGE)

import gemmgrid
from gemmgrid.plan import ConfigError, load
from gemmgrid.plan.environments import failed_token, interpreter
from gemmgrid.records.context import digest
from gemmgrid.records.history import write_atomically

# The scheduler's two lines a job would drown the line that each cell prints; and that the grid is
# incomplete has been said in plain words before Snakemake shows the command that said it.
CHATTER = re.compile(r"Select jobs to execute|Execute \d|RuleException:.*gemmgrid\.report gate", re.S)
logger.addFilter(lambda record: not CHATTER.match(str(record.msg)))

STATE = "results/.plan"
COMPLETE = f"{STATE}/complete.json"
STUDY = f"{STATE}/study.json"


def choose_deployment():
    """conda with --use-conda, otherwise `--config deploy=…`, otherwise venvs that uv builds."""
    methods = {str(method) for method in workflow.deployment_settings.deployment_method}
    wanted = config.pop("deploy", None)
    if wanted not in (None, "venv", "conda", "none"):
        raise WorkflowError(f"--config deploy: found {wanted!r}; allowed: venv, conda, none")
    if "conda" in methods or wanted == "conda":
        return "conda"
    return wanted or "venv"


DEPLOY = choose_deployment()
try:
    PLAN = load(config, ROOT, DEPLOY, files=[Path(name) for name in workflow.configfiles])
except ConfigError as error:
    raise WorkflowError(str(error)) from None

CELLS = {(cell.machine, cell.backend, cell.name): cell for cell in PLAN.cells}
STARTED = time.time()
HELD = []  # the folder's lock, as long as this process lives
MEASURED = []  # the jobs of this run that measure


def planned(wildcards):
    """The plan's entry of a job."""
    return CELLS[wildcards.machine, wildcards.backend, wildcards.cell]


def marker(backend):
    """The file that says how the backend's venv was made."""
    return f".envs/{backend.environment}.json"


def describe_tool():
    """Version, commit and whether files were changed since, for the records."""

    def git(*arguments):
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None

    changed = git("status", "--porcelain", "--untracked-files=no")
    return {
        "version": gemmgrid.__version__,
        "commit": git("rev-parse", "HEAD"),
        "dirty": None if changed is None else bool(changed),
    }


def hold_folder():
    """Keep a second workflow out of this folder; unlike Snakemake's lock it dies with us."""
    folder = Path(".snakemake")
    folder.mkdir(exist_ok=True)
    held = (folder / "gemmgrid.lock").open("w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise WorkflowError("another gemmgrid workflow is running in this folder") from None
    return held


def older_than(path, moment):
    """Whether the file is missing or older than that moment."""
    return not Path(path).exists() or Path(path).stat().st_mtime < moment


onstart:
    HELD.append(hold_folder())
    jobs = [job for job in workflow.dag.needrun_jobs() if job.rule.name.startswith("measure_")]
    MEASURED.extend(jobs)
    PLAN.write(Path(STATE, "plan.jsonl"))
    study = {
        "study": PLAN.study,
        "settings": PLAN.settings,
        "seed": PLAN.seed,
        "orders": {f"{c.machine}/{c.backend}/{c.name}": c.order for c in PLAN.cells},
        "tool": describe_tool(),
    }
    write_atomically(Path(STUDY), json.dumps(study).encode())
    progress = {"total": len(jobs), "seconds": []}
    write_atomically(Path(STATE, "progress.json"), json.dumps(progress).encode())
    if jobs:
        print(
            f"gemmgrid: study {PLAN.study} on {', '.join(sorted({c.machine for c in PLAN.cells}))}: "
            f"{len(jobs)} of {len(PLAN.cells)} cells to measure, "
            f"{len(PLAN.skipped)} left out with a reason",
            file=sys.stderr,
        )
