# What no longer describes the machine, and measuring just that again. Both ask the machine for its
# context now, which starts no backend and builds no environment. `refresh` forces exactly the cells
# that it chose, by naming them to the DAG while it is being built: nothing is left behind that a
# later run could take for a change.


include: "common/stale.smk"


# One short job on a node of each machine; on this machine it is no job of its own kind.
rule look:
    output:
        LOOK,
    log:
        f"{LOGS}/look/{{machine}}.log",
    localrule: not PLAN.machines
    conda:
        NO_ENVIRONMENT
    resources:
        slurm_partition=lambda wildcards: asked_of(wildcards, "partition"),
        constraint=lambda wildcards: asked_of(wildcards, "constraint"),
        gres=lambda wildcards: asked_of(wildcards, "gres"),
        slurm_account=lambda wildcards: asked_of(wildcards, "account"),
        qos=lambda wildcards: asked_of(wildcards, "qos"),
        mem_mb=500,
        runtime=5,
    params:
        request=lambda wildcards: question(wildcards.machine),
        command=look_command,
    shell:
        'GEMMGRID_SITE_PYTHONPATH="${{PYTHONPATH-}}" exec {params.command:q} '
        "--request {params.request:q} --out {output:q}"


# The cells whose latest run was made in another context than the machine has now.
rule stale:
    input:
        lambda wildcards: force([LOOK.format(machine=machine) for machine in machines()]),
    log:
        f"{LOGS}/stale.log",
    localrule: True
    conda:
        NO_ENVIRONMENT
    params:
        command=stale_command,
    shell:
        "{params.command:q} {input:q} 2> >(tee {log:q} >&2)"


# Measures those again, or what --config only=failed, only=missing, older_than=30d, select=… choose.
rule refresh:
    input:
        lambda wildcards: cells_to_refresh(),
    localrule: True
