# Two sides against each other, and the gate for continuous integration. All from what lies under
# results/: nothing is measured.


# Before and after; or --config first=… second=… with machines, backends, machine/backend or days.
rule compare:
    input:
        planned,
    log:
        f"{LOGS}/compare.log",
    localrule: True
    conda:
        REPORT_ENVIRONMENT
    params:
        command=reporting("compare", *options("first", "second")),
    shell:
        "{params.command:q}"


# Fails when a cell has left the band that config/references.yaml gives it. References name cells by
# selectors: the plan's side finds out which ones they mean.
rule check:
    input:
        planned,
    log:
        f"{LOGS}/judge.log",
    localrule: True
    conda:
        REPORT_ENVIRONMENT
    params:
        resolve=logged(
            "resolve",
            "resolve",
            *("--root", str(HERE), "--results", "results"),
            *("--out", f"{STATE}/references.jsonl"),
        ),
        command=reporting("judge", "--references", f"{STATE}/references.jsonl"),
    shell:
        "{params.resolve:q} && {params.command:q}"


# Writes config/references.yaml from the present state.
rule references:
    input:
        planned,
    log:
        f"{LOGS}/references.log",
    localrule: True
    conda:
        REPORT_ENVIRONMENT
    params:
        command=reporting(
            "references",
            *("--out", "config/references.yaml"),
            *options("lower", "upper", "replace"),
        ),
    shell:
        "{params.command:q}"
