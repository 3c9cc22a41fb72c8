# The rounds of a cell, appended to its history as one run.


rule gather:
    input:
        [PART.replace("{round}", str(number)) for number in ROUNDS],
    output:
        update("results/{machine}/{backend}/{cell}.jsonl"),
    log:
        LOG,
    priority: len(ROUNDS) * ROUND
    localrule: bool(PLAN.machines)
    conda:
        NO_ENVIRONMENT
    threads: ALL_CORES
    params:
        spec=spec,
        command=gather_command,
    shell:
        "exec {params.command:q} --out {output:q} --log {log:q} -- {input:q}"
