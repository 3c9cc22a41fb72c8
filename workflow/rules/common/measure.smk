# What the measuring jobs are told: the command, the order, and what makes a cell another one.

ROUNDS = range(1, PLAN.settings["rounds"] + 1)
ROUND = len(PLAN.cells) + 1  # the span of priorities in one round
PART = f"{STATE}/rounds/{{machine}}/{{backend}}/{{cell}}.{{round}}.json"
LOG = f"{LOGS}/{{machine}}/{{backend}}/{{cell}}.log"


def spec(wildcards):
    """Everything whose change must measure the cell again, as one JSON text."""
    return planned(wildcards).spec


def supervise(what, backend, more=""):
    """The shell text of a backend's jobs. It holds paths, and Snakemake does not track it: only
    `spec` decides about measuring again. One text a backend, not one a job, keeps parsing fast."""
    deploy = "none" if backend.of_site else DEPLOY
    words = [
        *(*OURS, "gemmgrid.measure", what, "--study", STUDY),
        *("--deploy", deploy, "--environment", backend.environment),
        *("--python", interpreter(backend, DEPLOY, ROOT)),
        *("--marker", marker(backend)),
        *(("--prefix", conda_prefix(backend.environment)) if deploy == "conda" else ()),
        *("--modules", *backend.modules),
    ]
    fixed = shlex.join(words).replace("{", "{{").replace("}", "}}")
    # The site's PYTHONPATH goes on under another name, because the package's takes its place.
    return (
        f'GEMMGRID_SITE_PYTHONPATH="${{{{PYTHONPATH-}}}}" exec {fixed} '
        "--machine {wildcards.machine:q} --spec {params.spec:q} --out {output:q} --log {log:q}"
        f"{more}"
    )


def order(wildcards):
    """Priority of a cell: the seeded order across backends, so that drift is no difference."""
    return ROUND - planned(wildcards).order


def order_in_round(wildcards):
    """Rounds follow one another, each in an order of its own."""
    number = int(wildcards.round)
    shuffled = digest([PLAN.seed, number, planned(wildcards).path])
    return (len(ROUNDS) - number) * ROUND + int(shuffled, 16) % ROUND


# Snakemake does not track a function of `threads`.
def gather_command(wildcards, threads):
    return [*OURS, "gemmgrid.measure", "gather"]


def conda_file(backend):
    """The conda environment of a backend; none on a stack of the site's own, or for pip alone."""
    file = ROOT / f"envs/{backend.environment}.yaml"
    return None if backend.of_site or not file.exists() else str(file)
