# The plan on disk and the environments, before anything is measured. Each is made where it is due
# or asked for, which `due` outputs of this start say.


rule plan:
    output:
        PLAN_FILE,
        STUDY,
        due=temp(due("plan")),
    log:
        f"{LOGS}/plan.log",
    localrule: True
    conda:
        OWN_ENVIRONMENT
    params:
        command=plan_command,
    shell:
        "{params.command:q} && touch {output.due:q}"


# One rule an environment. It always succeeds: its marker says how it went, and a broken environment
# costs its own cells. Under --use-conda Snakemake makes it, and the job describes what is active.
for name in made_for([*PLAN.backends.values(), EXPLAINED]):

    rule:
        name:
            f"environment_{name}"
        output:
            temp(due(f"environment.{name}")),
        log:
            f"{LOGS}/environments/{name}.log",
        localrule: True
        conda:
            conda_file(name)
        params:
            command=make_command(name),
        shell:
            "{params.command:q} && touch {output:q}"


# The one input of every job that measures.
rule ready:
    input:
        before_ready,
    output:
        temp(due("ready")),
    log:
        f"{LOGS}/ready.log",
    localrule: True
    conda:
        OWN_ENVIRONMENT
    shell:
        "touch {output:q}"


# All of the study's environments, without measuring: `snakemake --cores 1 environments`. Under
# --use-conda, with --conda-create-envs-only nothing else is done.
rule environments:
    input:
        environments_of(PLAN.backends.values()),


# What runs under one expression, and how we know it:
#   snakemake --cores 1 explain --config expr="A @ B.T" backend=numpy-openblas dtype=float32 shape=512
rule explain:
    input:
        environments_of([EXPLAINED]),
    log:
        f"{LOGS}/explain.log",
    localrule: True
    conda:
        None if EXPLAINED.of_site else conda_file(EXPLAINED.environment)
    params:
        command=explanation,
    shell:
        "{params.command:q}"
