# What the measuring jobs are told: the command, the order, and what makes a cell another one.

ROUNDS = range(1, PLAN.settings["rounds"] + 1)
ROUND = len(PLAN.cells) + 1  # the span of priorities in one round
ROUNDS_FOLDER = f"{STATE}/rounds"
PART = f"{ROUNDS_FOLDER}/{{machine}}/{{backend}}/{{cell}}.{{round}}.json"
# Every job takes all of them, so that two never overlap.
ALL_CORES = 1 if PLAN.machines or not workflow.resource_settings.cores else workflow.cores
KEPT = f"{STATE}/kept"  # runs made on nodes, until they stand in their histories
LOG = f"{LOGS}/{{machine}}/{{backend}}/{{cell}}.log"


def spec(wildcards):
    """Everything whose change must measure the cell again, as one JSON text."""
    return planned(wildcards).spec


# One text for all rules: what depends on the backend comes through `params`, because Snakemake reads
# a rule's shell text again when the job runs, when the loop that made the rules is over. The site's
# PYTHONPATH goes on under another name, because the package's takes its place.
RUN = (
    'GEMMGRID_SITE_PYTHONPATH="${{PYTHONPATH-}}" exec {params.command} '
    "--machine {wildcards.machine:q} --spec {params.spec:q} --out {output:q} --log {log:q}"
)
RUN_ROUND = f"{RUN} --round {{wildcards.round:q}}"


@functools.cache
def supervise(what, name):
    """The part of a job's command that is the same for all cells of a backend, quoted."""
    backend = PLAN.backends[name]
    deploy = "none" if backend.of_site else DEPLOY
    words = [
        *(*OURS, "gemmgrid.measure", what, "--study", STUDY),
        *("--deploy", deploy, "--environment", backend.environment),
        *("--python", interpreter(backend, DEPLOY, ROOT)),
        *("--marker", marker(backend)),
        *(("--prefix", conda_prefix(backend.environment)) if deploy == "conda" else ()),
        *("--modules", *backend.modules),
    ]
    return shlex.join(words)


# Snakemake does not track a function of `threads`: only `spec` decides about measuring again.
def measure_command(wildcards, threads):
    return supervise("cell", wildcards.backend)


def round_command(wildcards, threads):
    return supervise("round", wildcards.backend)


def order(wildcards):
    """Priority of a cell: the seeded order across backends, so that drift is no difference."""
    return ROUND - planned(wildcards).order


def order_in_round(wildcards):
    """Rounds follow one another, each in an order of its own."""
    number = int(wildcards.round)
    shuffled = digest([PLAN.seed, number, planned(wildcards).path])
    return (len(ROUNDS) - number) * ROUND + int(shuffled, 16) % ROUND


def gather_command(wildcards, threads):
    kept = ["--kept", KEPT, "--progress", f"{STATE}/progress.json"] if PLAN.machines else []
    return [*OURS, "gemmgrid.measure", "gather", *kept]


def conda_file(backend):
    """The conda environment of a backend; none on a stack of the site's own, or for pip alone."""
    file = ROOT / f"envs/{backend.environment}.yaml"
    return None if backend.of_site or not file.exists() else str(file)
