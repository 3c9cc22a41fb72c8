# What no longer describes the machine, and measuring just that again. Both ask the machine for its
# context now, which starts no backend and builds no environment.


# One short job on a node of each machine; on this machine it is no job of its own kind. Its output
# is of this start, so that a machine is asked anew each time; the answer stays for `refresh`.
rule look:
    output:
        temp(f"{STATE}/due/look.{{machine}}.{{start}}"),
    log:
        f"{LOGS}/look/{{machine}}.{{start}}.log",
    localrule: not PLAN.machines
    conda:
        OWN_ENVIRONMENT
    resources:
        **RESOURCES,
        mem_mb=500,
        runtime=5,
    params:
        request=lambda wildcards: MACHINES.question(wildcards.machine),
        answer=lambda wildcards: LOOK.format(machine=wildcards.machine),
        command=[*OURS, "--log"],
    shell:
        'GEMMGRID_SITE_PYTHONPATH="${{PYTHONPATH-}}" {params.command:q} {log:q} '
        "context --request {params.request:q} "
        "--out {params.answer:q} && touch {output:q}"


# The cells whose latest run was made in another context than the machine has now.
rule stale:
    input:
        planned,
        [f"{STATE}/due/look.{machine}.{START}" for machine in MACHINES.names],
    log:
        f"{LOGS}/stale.log",
    localrule: True
    conda:
        OWN_ENVIRONMENT
    params:
        command=stale_command,
    shell:
        "{params.command:q}"


# Measures those again, or what --config only=failed, only=missing, older_than=30d, select=… choose.
rule refresh:
    input:
        # Without any input it would always run; a file that is there stands for "nothing".
        lambda wildcards: one_cell(wildcards) if refreshed() else [f"{PACKAGE}/Snakefile"],
