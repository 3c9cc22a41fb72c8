# From runs to tables, page and summary. The report scans what lies under results/, so that cells
# which failed, or came from other machines, are in it; only `complete` insists on all of them.


include: "common/report.smk"


rule tabulate:
    input:
        [cell.path for cell in PLAN.cells],
    output:
        TABLES,
    log:
        f"{LOGS}/tabulate.log",
    conda:
        REPORT_ENVIRONMENT
    params:
        plan=PLAN.digest,
        brought=BROUGHT,
        command=tabulate_command,
    shell:
        "{params.command:q} 2> >(tee {log:q} >&2)"


rule render:
    input:
        TABLES,
    output:
        PAGE,
    log:
        f"{LOGS}/render.log",
    conda:
        REPORT_ENVIRONMENT
    params:
        command=render_command,
    shell:
        "{params.command:q} 2> >(tee {log:q} >&2)"


rule complete:
    input:
        PAGE,
    output:
        COMPLETE,
    log:
        f"{LOGS}/complete.log",
    conda:
        REPORT_ENVIRONMENT
    params:
        plan=PLAN.digest,
        summary=summary_command,
        gate=gate_command,
    shell:
        "{params.summary:q} 2> >(tee {log:q} >&2); {params.gate:q}"


# The page from what is there, without measuring anything: `snakemake --cores 1 report`.
rule report:
    log:
        f"{LOGS}/report.log",
    conda:
        REPORT_ENVIRONMENT
    params:
        command=report_command,
        summary=summary_command,
    shell:
        "{params.command:q} 2> >(tee {log:q} >&2); {params.summary:q}"


localrules:
    tabulate,
    render,
    complete,
    report,
