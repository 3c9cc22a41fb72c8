# Two sides against each other, and the gate for continuous integration. All from what lies under
# results/: nothing is measured.


include: "common/compare.smk"


# Before and after; or --config first=… second=… with machines, backends, machine/backend or days.
rule compare:
    log:
        f"{LOGS}/compare.log",
    localrule: True
    conda:
        REPORT_ENVIRONMENT
    params:
        command=compare_command,
    shell:
        "{params.command:q} 2> >(tee {log:q} >&2)"


# Fails when a cell has left the band that config/references.yaml gives it.
rule check:
    log:
        f"{LOGS}/check.log",
    localrule: True
    conda:
        REPORT_ENVIRONMENT
    params:
        resolve=resolve_command,
        command=check_command,
    shell:
        "({params.resolve:q} && {params.command:q}) 2> >(tee {log:q} >&2)"


# Writes config/references.yaml from the present state.
rule references:
    log:
        f"{LOGS}/references.log",
    localrule: True
    conda:
        REPORT_ENVIRONMENT
    params:
        command=references_command,
    shell:
        "{params.command:q} 2> >(tee {log:q} >&2)"
