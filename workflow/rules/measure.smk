# One job a block: here a cell, behind SLURM the cells of an allocation. The histories under results/
# are no output of any rule: jobs append to them, and what is needed is decided from them. A job's
# token says that it has ended, and is named after the runs that it was for.
#
# A rule for each set of environment modules, because that is all that a rule has to know beforehand.
for number, modules in enumerate(module_sets(PLAN.backends)):

    rule:
        name:
            f"measure_modules_{number}" if modules else "measure"
        input:
            READY,
        output:
            temp(TOKEN),
        log:
            f"{LOGS}/{{machine}}/{{block}}.{{round}}.log",
        wildcard_constraints:
            block=f"{number}-[0-9a-f]+",
            round="[0-9]+",
        priority: priority
        conda:
            OWN_ENVIRONMENT
        envmodules:
            *modules,
        threads: THREADS
        resources:
            **ALLOCATION,
        shell:
            # The site's PYTHONPATH goes on under another name, because the package's takes its place.
            f'GEMMGRID_SITE_PYTHONPATH="${{{{PYTHONPATH-}}}}" exec {MEASURE_BLOCK} '
            "{wildcards.block} --round {wildcards.round} --token {output:q} --log {log:q}"


# What nodes have measured of a block, appended to the histories; what they have not is lost.
rule settle:
    input:
        lambda wildcards: tokens_of(wildcards) or ready(wildcards),
    output:
        temp(SETTLED),
    log:
        f"{LOGS}/{{machine}}/{{block}}.settled.log",
    localrule: True
    conda:
        OWN_ENVIRONMENT
    params:
        command=f"{shlex.join(OURS)} settle",
        tokens=tokens_of,
    shell:
        "exec {params.command} {wildcards.block} --token {output:q} --log {log:q} --tokens {params.tokens:q}"
