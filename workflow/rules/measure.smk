# One job a cell, one rule a backend, because a rule has one environment. The supervisor that a job
# starts always appends a run that says what happened. Every job takes all the cores the workflow
# has, so that two never overlap; how many threads a product uses is part of the cell.

ROUNDS = range(1, PLAN.settings["rounds"] + 1)
ROUND = len(PLAN.cells) + 1  # the span of priorities in one round
PART = f"{STATE}/rounds/{{machine}}/{{backend}}/{{cell}}.{{round}}.json"
RUN = (
    'GEMMGRID_SITE_PYTHONPATH="${{PYTHONPATH-}}" PYTHONPATH={PACKAGE:q} '
    "exec {params.command:q} --out {output:q}"
)


def spec(wildcards):
    """Everything whose change must measure the cell again, as one JSON text."""
    return planned(wildcards).spec


def command(what, wildcards, *arguments):
    """The supervisor's command for a cell; paths in it are no reason to measure again."""
    backend = PLAN.backends[wildcards.backend]
    deploy = "none" if backend.python else DEPLOY
    return [
        sys.executable,
        *("-s", "-m", "gemmgrid.measure", what),
        *("--machine", wildcards.machine, "--spec", planned(wildcards).spec, "--study", STUDY),
        *("--deploy", deploy, "--environment", backend.environment),
        *("--python", interpreter(backend, DEPLOY, ROOT)),
        *("--marker", marker(backend)),
        *arguments,
    ]


# Snakemake does not track a function of `threads`: only `spec` decides about measuring again.
def measure_command(wildcards, threads):
    return command("cell", wildcards)


def round_command(wildcards, threads):
    return command("round", wildcards, "--round", wildcards.round)


def order(wildcards):
    """Priority of a cell: the seeded order across backends, so that drift is no difference."""
    return ROUND - planned(wildcards).order


def order_in_round(wildcards):
    """Rounds follow one another, each in an order of its own."""
    number = int(wildcards.round)
    shuffled = digest([PLAN.seed, number, planned(wildcards).path])
    return (len(ROUNDS) - number) * ROUND + int(shuffled, 16) % ROUND


for entry in PLAN.backends.values():
    made = ancient(marker(entry)) if DEPLOY == "venv" and not entry.python else []
    conda_file = None if entry.python else str(ROOT / f"envs/{entry.environment}.yaml")
    if len(ROUNDS) == 1:

        rule:
            name:
                f"measure_{entry.name}"
            input:
                made,
            output:
                update("results/{machine}/{backend}/{cell}.jsonl"),
            params:
                spec=spec,
                command=measure_command,
            wildcard_constraints:
                backend=re.escape(entry.name),
            conda:
                conda_file
            priority: order
            threads: workflow.cores or 1
            shell:
                RUN

    else:

        rule:
            name:
                f"measure_{entry.name}"
            input:
                made,
            output:
                temp(PART),
            params:
                spec=spec,
                command=round_command,
            wildcard_constraints:
                backend=re.escape(entry.name),
                round="[0-9]+",
            conda:
                conda_file
            priority: order_in_round
            threads: workflow.cores or 1
            shell:
                RUN


if len(ROUNDS) > 1:

    rule gather:
        input:
            [PART.replace("{round}", str(number)) for number in ROUNDS],
        output:
            update("results/{machine}/{backend}/{cell}.jsonl"),
        params:
            spec=spec,
            command=[sys.executable, "-s", "-m", "gemmgrid.measure", "gather"],
        priority: len(ROUNDS) * ROUND
        threads: workflow.cores or 1
        shell:
            "PYTHONPATH={PACKAGE:q} exec {params.command:q} --out {output:q} {input:q}"
