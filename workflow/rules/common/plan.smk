# The plan is made once, at parse time, from the merged config; every rule looks things up in it.

import fcntl
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from snakemake.deployment.conda import Env
from snakemake.logging import logger
from snakemake.utils import min_version

min_version("9.0")

ROOT = Path(str(workflow.current_basedir)).parents[2]
PACKAGE = str(ROOT / "workflow")
OURS = ["env", f"PYTHONPATH={PACKAGE}", sys.executable, "-s", "-m"]  # our package, as a command
sys.path.insert(0, PACKAGE)

import gemmgrid
from gemmgrid.plan import ConfigError, load
from gemmgrid.plan.environments import interpreter
from gemmgrid.records.context import digest
from gemmgrid.records.files import write_atomically

# The scheduler's two lines a job would drown the line that each cell prints; and that the grid is
# incomplete has been said in plain words before Snakemake shows the command that said it.
CHATTER = re.compile(
    r"Select jobs to execute|Execute \d|RuleException:.*gemmgrid\.report gate"
    # The slurm plugin's guesses about accounts, and what we say with the cells' number.
    r"|SLURM run ID|MinJobAge|Cleaning up SLURM log|No SLURM account given|No account was given"
    r"|Removing output files of failed job measure_|Unable to guess SLURM account|Job \S+ has been submitted with SLURM jobid",
    re.S,
)
logger.addFilter(lambda record: not CHATTER.match(str(record.msg)))

# Keys of --config that ask something of one command and are no part of the study.
QUESTIONS = (
    *("only", "older_than"),  # refresh
    *("first", "second", "lower", "upper", "replace"),  # compare, check
    *("expr", "backend", "dtype", "shape", "threads"),  # explain
    "cells_per_allocation",  # SLURM
)
STATE = "results/.plan"
COMPLETE = f"{STATE}/complete.json"
STUDY = f"{STATE}/study.json"
LOGS = f"{STATE}/logs"

CONFIGFILES = workflow.config_settings.configfiles
METHODS = {str(method) for method in workflow.deployment_settings.deployment_method}


def need_conda():
    """Say what to do where conda is missing, before Snakemake finds out in words of its own."""
    asked = ["bash", "-c", "type conda"]  # as Snakemake does: it may also be a shell's function
    if shutil.which("conda") or not subprocess.run(asked, capture_output=True).returncode:
        return
    raise WorkflowError(
        "--use-conda needs conda, and there is no `conda` on the PATH. Either\n"
        "  - install it (https://conda-forge.org/download), open a new shell, and start again; or\n"
        "  - leave out --use-conda: uv then builds the backends' environments from PyPI\n"
        "    (make bench DEPLOY=venv, or snakemake --cores 1)."
    )


def advise(record):
    """Say what to do where conda cannot make an environment: Snakemake makes all before it starts."""
    failed = re.search(
        r"Could not create conda environment from \S*?([^/]+)\.yaml", str(record.msg)
    )
    needing = [b.name for b in PLAN.backends.values() if failed and b.environment == failed[1]]
    others = [name for name in PLAN.backends if name not in needing]
    if needing:
        record.msg = (
            f"{record.msg}\ngemmgrid: nothing was measured now: {', '.join(needing)} needs it."
        )
        if others:
            record.msg += f" To measure the others:\n  --config backends={','.join(others)}"
    return True


@functools.cache
def conda_prefix(environment):
    """Where Snakemake keeps the conda environment of envs/<environment>.yaml."""
    return Env(workflow, env_file=str(ROOT / f"envs/{environment}.yaml")).address


def choose_deployment():
    """conda with --use-conda, otherwise `--config deploy=…`, otherwise venvs that uv builds."""
    wanted = config.pop("deploy", None)
    if wanted not in (None, "venv", "conda", "none"):
        raise WorkflowError(f"--config deploy: found {wanted!r}; allowed: venv, conda, none")
    if "conda" in METHODS:
        need_conda()
        return "conda"
    return wanted or "venv"


DEPLOY = choose_deployment()
ASKED = {key: config.pop(key) for key in QUESTIONS if key in config}
try:
    PLAN = load(
        config,
        ROOT,
        DEPLOY,
        files=[Path(name) for name in workflow.configfiles],
        modules="env-modules" in METHODS,
    )
except ConfigError as error:
    raise WorkflowError(str(error)) from None

logger.addFilter(advise)
CELLS = {(cell.machine, cell.backend, cell.name): cell for cell in PLAN.cells}
STARTED = time.time()
HELD = []  # the folder's lock, as long as this process lives
MEASURED = []  # the jobs of this run that measure


def planned(wildcards):
    """The plan's entry of a job."""
    try:
        return CELLS[wildcards.machine, wildcards.backend, wildcards.cell]
    except KeyError:
        raise WorkflowError(
            f"results/{wildcards.machine}/{wildcards.backend}/{wildcards.cell}.jsonl is no cell of "
            f"the study {PLAN.study} on this machine. A cell of another study needs that study: "
            "--configfile config/studies/NAME.yaml"
        ) from None


def marker(backend):
    """The file that says how the backend's venv was made."""
    return f".envs/{backend.environment}.json"


def older_than(path, moment):
    """Whether the file is missing or older than that moment."""
    return not Path(path).exists() or Path(path).stat().st_mtime < moment


def hold_folder():
    """Whether this workflow has the folder to itself; unlike Snakemake's lock it goes with us."""
    if not HELD:
        folder = Path(".snakemake")
        folder.mkdir(exist_ok=True)
        held = (folder / "gemmgrid.lock").open("w")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:  # a file system without locks
            note = f"gemmgrid: note: no lock in {folder}: {error.strerror}; start one workflow at a time"
            print(note, file=sys.stderr)
        HELD.append(held)
    return True
