# What the rules look things up in: the plan, made once at parse time from the merged config, and
# what the command line asks for, found out when the DAG is made. What reads Snakemake's own objects
# stands here and nowhere else; it was written for Snakemake 9.27, and is checked first.

import functools
import importlib.util
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
from snakemake_interface_executor_plugins.settings import ExecMode

min_version("9.17")  # priorities that are functions
READ = ("current_basedir", "config_settings", "deployment_settings", "resource_settings")
READ += (
    "exec_mode",
    "dag_settings",
    "modifier",
    "persistence",
)  # the last for the folders of conda's envs
if gone := [name for name in READ if not hasattr(workflow, name)]:
    raise WorkflowError(
        f"this Snakemake has no workflow.{gone[0]}, which gemmgrid (written for 9.27) reads: "
        "pip install 'snakemake>=9.17,<10', or see requirements/run.txt"
    )

if getattr(workflow.modifier.path_modifier, "prefix", None):
    raise WorkflowError(
        "gemmgrid keeps its results under results/ of the working directory, so that its commands find "
        "them: leave `prefix:` out of the module, or start it in a folder of its own"
    )

# A checkout brings the package beside its rules; a workflow that is read from a repository does not.
if Path(str(workflow.current_basedir)).is_dir():
    sys.path.insert(0, str(Path(str(workflow.current_basedir)).parent))
elif not importlib.util.find_spec("gemmgrid"):
    raise WorkflowError(
        "this workflow is read from a repository, and its package is not installed beside Snakemake: "
        "pip install git+URL@TAG with the URL and tag that the Snakefile names"
    )

from gemmgrid.plan import ConfigError, load
from gemmgrid.plan.change import asking
from gemmgrid.plan.change.refresh import WrongChoiceError, study_arguments
from gemmgrid.plan.environments import choice, interpreter
from gemmgrid.plan.jobs import commands, files, questions
from gemmgrid.plan.jobs.blocks import divide, module_sets, turns
from gemmgrid.plan.jobs.files import COMPLETE, LOGS, LOOK, PAGE, SETTLED, STAMP, STATE, STUDY
from gemmgrid.plan.jobs.files import PLAN as PLAN_FILE
from gemmgrid.plan.jobs.files import TABLES, TOKEN
from gemmgrid.plan.jobs.needed import Histories
from gemmgrid.plan.jobs.outlook import outlook
from gemmgrid.plan.jobs.targets import Targets, is_history, is_rule, unknown
from gemmgrid.plan.slurm import checks, forecast, resources, site
from gemmgrid.records.context import digest
from gemmgrid.system.project import PACKAGE as CODE
from gemmgrid.system.project import find

# The scheduler's two lines a job would drown the line that each cell prints; and what failed has been
# said in plain words before Snakemake shows the command that said it.
CHATTER = re.compile(
    r"Select jobs to execute|Execute \d"
    r"|RuleException:.*-m gemmgrid --log \S+ (gate|compare|judge|references)",
    re.S,
)
logger.addFilter(lambda record: not CHATTER.match(str(record.msg)))

HERE = Path.cwd()  # the folder of the run: its own config/ and envs/ come before the project's
PACKAGE = str(CODE.parent)
CONFIGFILES = [
    os.path.relpath(path) if Path(path).is_relative_to(HERE) else str(path)
    for path in workflow.config_settings.configfiles
]
METHODS = {str(method) for method in workflow.deployment_settings.deployment_method}
MAIN = workflow.exec_mode == ExecMode.DEFAULT  # not the Snakemake that a job starts


ASKED = {key: config.pop(key) for key in questions.QUESTIONS if key in config}
try:
    DEPLOY = choice.choose(config.pop("deploy", None), "conda" in METHODS, not MAIN)
    PLAN = load(
        config,
        HERE,
        DEPLOY,
        files=[Path(name) for name in workflow.configfiles],
        modules="env-modules" in METHODS,
    )
    SIZES = resources.sizes(PLAN.machines, PLAN.settings, ASKED.get("cells_per_allocation"))
except ConfigError as error:
    raise WorkflowError(str(error)) from None
CELLS = {cell.path: cell for cell in PLAN.cells}
if lost := unknown(sys.argv[1:], CELLS):
    raise WorkflowError(
        f"{lost} is no cell of the study {PLAN.study} on this machine. A cell of another study needs "
        "that study: --configfile config/studies/NAME.yaml"
    )
ROUNDS = range(1, PLAN.settings["rounds"] + 1)
HISTORIES = Histories(PLAN)
DIGEST = PLAN.whole_digest(CONFIGFILES)

# Outputs that only say that a job of this very start has ended: one that a killed start left must
# mean nothing to the next.
START = f"{time.time_ns():x}"


def due(what):
    return f"{STATE}/due/{what}.{START}"


READY = [due("ready")] if MAIN else []  # what a job that measures waits for; no function, for speed


# Commands. Our package's supervising side runs under the Python that runs Snakemake; so does the
# report, but under --use-conda where that Python lacks what it needs.
OURS = commands.ours(PACKAGE, sys.executable)
LACKS = [n for n in commands.REPORT_NEEDS if DEPLOY == "conda" and not importlib.util.find_spec(n)]
REPORT_ENVIRONMENT = str(find(HERE, "envs/report.yaml")) if LACKS or DEPLOY != "conda" else None
# Under --use-conda no environment is made for what runs under the Python that runs Snakemake.
OWN_ENVIRONMENT = None if DEPLOY == "conda" else str(find(HERE, "envs/report.yaml"))
# Part of a shell text as it is, for speed: parameters of ten thousand jobs take a second.
MEASURE_BLOCK = f"{shlex.join(OURS)} block{' --keep-only' if PLAN.machines else ''}"
MEASURE_BLOCK = MEASURE_BLOCK.replace("{", "{{").replace("}", "}}")


def logged(log, *command, ours=OURS):
    """A command of ours whose standard error is kept in a file as well."""
    return [*ours, "--log", f"{LOGS}/{log}.log", *command]


def reporting(what, *arguments, python="python" if LACKS else sys.executable):
    """A command of the report wing; where it has a conda environment, that is active in the job."""
    ours = commands.ours(PACKAGE, python)
    return logged(what, what, "--results", "results", *arguments, ours=ours)


def reporting_now(what, *arguments):
    """The same outside a job, where no environment is active."""
    made = Path(conda_prefix("report"), "bin/python") if LACKS else None
    python = str(made) if made and made.exists() else sys.executable
    return reporting(what, *arguments, python=python)


def options(*keys):
    """Arguments for the report's command from the keys of --config that were given."""
    given = [(key, ASKED.get(key)) for key in keys]
    return [f"--{key}={value}" for key, value in given if value is not None]


# Environments.
@functools.cache
def conda_prefix(environment):
    """Where Snakemake keeps the conda environment of envs/<environment>.yaml."""
    return Env(workflow, env_file=str(find(HERE, f"envs/{environment}.yaml"))).address


def conda_file(environment):
    """The conda environment of that name; none where pip alone can make it."""
    file = find(HERE, f"envs/{environment}.yaml")
    return str(file) if file.exists() else None


def made_for(backends):
    """The environments that are made for these backends."""
    if DEPLOY == "none":
        return []
    return sorted({entry.environment for entry in backends if not entry.of_site})


def make_command(name):
    """The command that makes an environment, asked for once Snakemake knows where it keeps them."""

    def command(wildcards, threads):
        if DEPLOY == "conda":
            what = ["conda", name, "--prefix", conda_prefix(name)]
        else:
            what = ["build", name, "--into", ".envs"]
        envs = find(HERE, f"envs/{name}.{'yaml' if DEPLOY == 'conda' else 'txt'}").parent
        places = ["--envs", str(envs), "--marker", f"{STATE}/environments/{name}.json"]
        return logged(f"environments/{name}", *what, *places)

    return command


def environments_of(backends):
    return [due(f"environment.{name}") for name in made_for(backends)]


# What is asked for, and what is to be measured for it: only the DAG needs to know.
@functools.cache
def targets():
    """What the command line names and forces; what it asks of no command that it names is refused."""
    settings = workflow.dag_settings
    try:
        questions.check(ASKED, map(str, settings.targets))
    except ConfigError as error:
        raise WorkflowError(str(error)) from None
    wants_refresh = any(is_rule(str(name), "refresh") for name in settings.targets)
    return Targets(
        names=frozenset(map(str, settings.targets)),
        forced=frozenset(map(str, settings.forcerun)),
        all_forced=settings.forceall,
        target_forced=settings.forcetargets,
        refreshed=frozenset(refreshed()) if wants_refresh else frozenset(),
    )


@functools.cache
def blocks():
    """The blocks to measure, by machine and name."""
    sending = MAIN and workflow.executor_plugin is not None and not workflow.dryrun
    if sending:
        take_up()
    cells = targets().cells(CELLS, HISTORIES)
    found = divide(cells, HISTORIES, Path(files.PARTS), SIZES)
    if made_for(PLAN.backends[cell.backend] for one in found for cell in one.cells):
        try:
            choice.check_builder(DEPLOY, sys.executable)
        except ConfigError as error:
            raise WorkflowError(str(error)) from None
    if sending and found:
        before_sending(found)
    if MAIN and targets().measure and (workflow.dryrun or not cells) and PLAN.cells:
        logger.info(outlook(PLAN, len(cells)))
    return {(block.machine, block.name): block for block in found}


def block_of(wildcards):
    """The block of a job; the Snakemake that a job starts reads it, as its cells' supervisor does."""
    if MAIN:
        return blocks()[wildcards.machine, wildcards.block]
    return commands.read_block(Path(files.BLOCKS), wildcards.block)


def tokens():
    """What says that all of this start's cells are measured, and stand in their histories."""
    if PLAN.machines:
        return [SETTLED.format(machine=one.machine, block=one.name) for one in blocks().values()]
    return [
        TOKEN.format(machine=one.machine, block=one.name, round=number)
        for one in blocks().values()
        for number in one.rounds or ROUNDS[-1:]  # all is there already, and still to be joined
    ]


def before_ready(wildcards):
    used = {cell.backend for one in blocks().values() for cell in one.cells}
    return [due("plan"), *environments_of(PLAN.backends[name] for name in used)]


def ready(wildcards):
    return READY


def plan_command(wildcards, threads):
    found = [cell for one in blocks().values() for cell in one.cells]
    return logged(
        "plan",
        "plan",
        *("--root", str(HERE), "--config", json.dumps(config, default=str), "--deploy", DEPLOY),
        *(("--modules",) if "env-modules" in METHODS else ()),
        *("--files", *CONFIGFILES, "--sizes", json.dumps(SIZES)),
        *(("--turns", turns(found)) if found else ()),
        *(("--blocks", digest([one.name for one in blocks().values()])) if found else ()),
    )


@functools.cache
def plan_is_due():
    return files.plan_is_due(DIGEST)


def planned(wildcards=None):
    """The plan, for what only looks at results."""
    targets()
    return [PLAN_FILE, *([due("plan")] if plan_is_due() else [])]


def measured(wildcards):
    return [*tokens(), PLAN_FILE, *([due("plan")] if tokens() or plan_is_due() else [])]


@functools.cache
def tables_are_due():
    wanted = plan_is_due() or targets().target_forced or blocks()
    return bool(wanted) or files.tables_are_due(DIGEST)


def shown(wildcards=None):
    """The page, and the tables that it is of where they are due."""
    return [PAGE, *([due("tables")] if tables_are_due() else [])]


def finished(wildcards=None):
    return [*shown(), COMPLETE]


def one_cell(wildcards):
    """After one cell: the page with its new run; and, if all was there, whether it still is."""
    return finished() if Path(COMPLETE).exists() else shown()


# What a machine is like now, and which cells no longer describe it.
LOOKER = [*OURS, "context"]
STUDY_ARGUMENTS = study_arguments(
    workflow.config_settings.configfiles, workflow.config_settings.config
)
MACHINES = asking.Machines(PLAN, HERE, LOOK, LOOKER, STUDY_ARGUMENTS, conda_prefix)


@functools.cache
def refreshed():
    """The paths of the cells that a refresh measures again."""
    try:
        return MACHINES.chosen(ASKED.get("only"), ASKED.get("older_than"))
    except (asking.UnknownContextError, WrongChoiceError) as error:
        raise WorkflowError(str(error)) from None


def stale_command(wildcards, threads):
    words = ["--plan", PLAN_FILE, *MACHINES.listing_words()]
    return logged("stale", "stale", *words)


# The backend that `explain` asks about, and the command that explains.
EXPLAINED = PLAN.registry.get(ASKED.get("backend", "numpy-openblas"))
if EXPLAINED is None and "backend" not in ASKED:  # the registry is another one
    EXPLAINED = next(iter(PLAN.registry.values()))
elif EXPLAINED is None:
    raise WorkflowError(
        f"--config backend: found {ASKED['backend']!r}, which is no backend of config/backends.yaml. "
        f"Allowed: {', '.join(sorted(PLAN.registry))}"
    )


def explanation(wildcards, threads):
    python = interpreter(EXPLAINED, DEPLOY, HERE)
    return logged("explain", "explain", *commands.explain(EXPLAINED, python, ASKED))


def priority(wildcards):
    """Rounds follow one another, each block in its turn, so that drift is no difference."""
    rank = len(ROUNDS) - int(wildcards.round)
    return (rank + 1) * (len(PLAN.cells) + 1) - block_of(wildcards).turn


# Handlers.
FOLDER = files.Folder()


def hold_folder():
    return FOLDER.hold()


def forget_start():
    FOLDER.forget(START)


# What an input function refuses is told as what is wrong at parse time: without its stack.
REFUSED = re.compile(
    r"InputFunctionException in \w+ .*?\n\s*(WorkflowError:\n.*?)\nWildcards:", re.S
)


def tell_plainly(record):
    if refused := REFUSED.match(str(record.msg)):
        record.msg = refused[1]
    return True


logger.addFilter(tell_plainly)


def advise(record):
    if more := choice.advice(str(record.msg), PLAN):
        record.msg = f"{record.msg}{more}"
    return True


logger.addFilter(advise)
