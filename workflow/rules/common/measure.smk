# What the measuring jobs are told: the command, the order, and what makes a cell another one.

ROUNDS = range(1, PLAN.settings["rounds"] + 1)
ROUND = len(PLAN.cells) + 1  # the span of priorities in one round
PART = f"{STATE}/rounds/{{machine}}/{{backend}}/{{cell}}.{{round}}.json"
LOG = f"{LOGS}/{{machine}}/{{backend}}/{{cell}}.log"
# The site's PYTHONPATH goes on under another name, because the package's takes its place.
RUN = (
    'GEMMGRID_SITE_PYTHONPATH="${{PYTHONPATH-}}" '
    "exec {params.command:q} --out {output:q} --log {log:q}"
)


def spec(wildcards):
    """Everything whose change must measure the cell again, as one JSON text."""
    return planned(wildcards).spec


@functools.cache
def fixed_words(what, name):
    """What is the same in the command of all of a backend's cells."""
    backend = PLAN.backends[name]
    deploy = "none" if backend.of_site else DEPLOY
    return [
        *(*OURS, "gemmgrid.measure", what, "--study", STUDY),
        *("--deploy", deploy, "--environment", backend.environment),
        *("--python", interpreter(backend, DEPLOY, ROOT)),
        *("--marker", marker(backend)),
        *(("--prefix", conda_prefix(backend.environment)) if deploy == "conda" else ()),
        *("--modules", *backend.modules),
    ]


def command(what, wildcards):
    """The supervisor's command for a cell; paths in it are no reason to measure again."""
    cell = ("--machine", wildcards.machine, "--spec", planned(wildcards).spec)
    return [*fixed_words(what, wildcards.backend), *cell]


# Snakemake does not track a function of `threads`: only `spec` decides about measuring again.
def measure_command(wildcards, threads):
    return command("cell", wildcards)


def round_command(wildcards, threads):
    return [*command("round", wildcards), "--round", wildcards.round]


def order(wildcards):
    """Priority of a cell: the seeded order across backends, so that drift is no difference."""
    return ROUND - planned(wildcards).order


def order_in_round(wildcards):
    """Rounds follow one another, each in an order of its own."""
    number = int(wildcards.round)
    shuffled = digest([PLAN.seed, number, planned(wildcards).path])
    return (len(ROUNDS) - number) * ROUND + int(shuffled, 16) % ROUND


def gather_command(wildcards, threads):
    return [*OURS, "gemmgrid.measure", "gather"]


def conda_file(backend):
    """The conda environment of a backend; none on a stack of the site's own, or for pip alone."""
    file = ROOT / f"envs/{backend.environment}.yaml"
    return None if backend.of_site or not file.exists() else str(file)
