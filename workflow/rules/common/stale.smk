# What the machine is like now, which cells no longer describe it, and which are to be measured again.

from functools import cache

from gemmgrid.plan.change import refresh as refreshing
from gemmgrid.plan.change import stale as standing

LOOK = f"{STATE}/now/{{machine}}.json"
LOOKED_LATELY_S = 3600
LATEST = standing.Latest()
LOOKER = [*OURS, "gemmgrid.measure.supervise.current_context"]
# Jobs get the site's PYTHONPATH under this name, because theirs is the package's.
SITE = "GEMMGRID_SITE_PYTHONPATH"


@cache
def entries():
    """The planned cells, as far as their standing needs them."""
    return [standing.Entry(c.machine, c.backend, c.cell, c.path) for c in PLAN.cells]


@cache
def machines():
    return sorted({entry.machine for entry in entries()})


def question(machine):
    """What a machine is asked: its backends, and the packages and files that their runs named."""
    asked = standing.request(machine, entries(), PLAN.backends, DEPLOY, ROOT, LATEST, conda_prefix)
    return json.dumps(asked, sort_keys=True)


def look_here(machine):
    """Ask this machine, at once."""
    answer = Path(LOOK.format(machine=machine))
    environment = {**os.environ, SITE: os.environ.get("PYTHONPATH", "")}
    command = [*LOOKER, "--request", question(machine), "--out", str(answer)]
    if subprocess.run(command, env=environment, check=False).returncode:
        raise WorkflowError("this machine's context could not be read: see the message above")
    return standing.read_answer(answer)


def last_look(machine):
    """What a machine behind SLURM said to the last `stale`, if that is not long ago."""
    answer = Path(LOOK.format(machine=machine))
    if older_than(answer, time.time() - LOOKED_LATELY_S):
        again = refreshing.command("stale", STUDY_ARGUMENTS, DEPLOY, True)
        raise WorkflowError(
            f"what machine {machine} is like now is not known: {answer} is missing or more than "
            f"an hour old. Ask a node of it first: {again}"
        )
    return standing.read_answer(answer)


def force(files):
    """Have these files made again whatever their age: what -R does, for files known only now."""
    workflow.dag.forcefiles.update(files)
    return files


@cache
def cells_to_refresh():
    only, age = ASKED.get("only"), ASKED.get("older_than")
    read = last_look if PLAN.machines else look_here
    answers = {machine: read(machine) for machine in machines()}
    found = standing.standings(entries(), answers, LATEST)
    try:
        chosen = refreshing.chosen(found, only, age)
    except refreshing.WrongChoiceError as error:
        raise WorkflowError(str(error)) from None
    print(f"gemmgrid: {refreshing.told(chosen, only, age)}", file=sys.stderr)
    # Without any input it would always run; its own file stands for "nothing".
    return force([one.entry.path for one in chosen]) or [f"{PACKAGE}/rules/stale.smk"]


def asked_of(wildcards, key):
    """What SLURM is asked for to reach a machine; nothing where the machine is this one."""
    machine = PLAN.machines.get(wildcards.machine)
    return getattr(machine, key) if machine else None


STUDY_ARGUMENTS = refreshing.study_arguments(
    workflow.config_settings.configfiles, workflow.config_settings.config
)


def look_command(wildcards, threads):
    return LOOKER


def stale_command(wildcards, threads):
    behind_slurm = bool(PLAN.machines)
    again = refreshing.command("refresh", STUDY_ARGUMENTS, DEPLOY, behind_slurm)
    one_cell = refreshing.command("-f {}", STUDY_ARGUMENTS, DEPLOY, behind_slurm)
    plan = ["--plan", f"{STATE}/plan.jsonl"]
    return [*OURS, "gemmgrid.plan.change.stale", *plan, "--again", again, "--one-cell", one_cell]
