# One job a cell, one rule a backend, because a rule has one environment. The supervisor that a job
# starts always appends a run that says what happened. Every job takes all the cores the workflow
# has, so that two never overlap; how many threads a product uses is part of the cell.


for entry in PLAN.backends.values():
    if len(ROUNDS) == 1:

        rule:
            name:
                f"measure_{entry.name}"
            output:
                update("results/{machine}/{backend}/{cell}.jsonl"),
            log:
                LOG,
            wildcard_constraints:
                backend=re.escape(entry.name),
            priority: order
            conda:
                conda_file(entry)
            envmodules:
                *entry.modules,
            threads: ALL_CORES
            params:
                spec=spec,
                command=measure_command,
            shell:
                RUN

    else:

        rule:
            name:
                f"measure_{entry.name}"
            output:
                temp(PART),
            log:
                f"{LOG}.{{round}}",
            wildcard_constraints:
                backend=re.escape(entry.name),
                round="[0-9]+",
            priority: order_in_round
            conda:
                conda_file(entry)
            envmodules:
                *entry.modules,
            threads: ALL_CORES
            params:
                spec=spec,
                command=round_command,
            shell:
                RUN_ROUND
