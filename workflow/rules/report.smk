# From runs to tables, page and summary. The report scans what lies under results/, so that cells
# which failed, or came from other machines, are in it; only `complete` insists on all of them.
# `snakemake --report r.html` (or r.zip) packs page and tables with the captions of workflow/report/.


report: "../report/workflow.rst"


rule tabulate:
    input:
        measured,
        commands.sources(PACKAGE, "records", "report/*.py", "report/read", "report/judge"),
    output:
        *[
            (
                report(table, caption=f"../report/{Path(table).stem}.rst", category="Tables")
                if table.endswith(".csv")
                else table
            )
            for table in TABLES
        ],
        STAMP,
        due=temp(due("tables")),
    log:
        f"{LOGS}/tables.log",
    localrule: True
    conda:
        REPORT_ENVIRONMENT
    params:
        stamp=[*OURS, "stamp", "--plan", DIGEST, "--out", STAMP],
        command=reporting("tables"),
    shell:
        "{params.stamp:q} && {params.command:q} && touch {output.due:q}"


rule render:
    input:
        TABLES,
        commands.sources(PACKAGE, "report/draw", "report/lesson", "report/page", "report/terminal"),
    output:
        report(PAGE, caption="../report/page.rst", category="Page", labels={"page": "the report"}),
    log:
        f"{LOGS}/page.log",
    localrule: True
    conda:
        REPORT_ENVIRONMENT
    params:
        command=reporting("page", "--out", PAGE),
    shell:
        "{params.command:q}"


rule gate:
    input:
        PAGE,
    output:
        COMPLETE,
    log:
        f"{LOGS}/gate.log",
    localrule: True
    conda:
        REPORT_ENVIRONMENT
    params:
        summary=reporting("summary", "--out", PAGE),
        command=reporting("gate", "--marker", COMPLETE),
    shell:
        "{params.summary:q}; {params.command:q}"


# Whether every cell of the study is measured: the exit code says it.
rule complete:
    input:
        finished,


# The page from what is there, without measuring anything: `snakemake --cores 1 report`.
rule report:
    input:
        planned,
    log:
        f"{LOGS}/report.log",
    localrule: True
    conda:
        REPORT_ENVIRONMENT
    params:
        command=reporting("report", "--out", PAGE),
        summary=reporting("summary", "--out", PAGE),
    shell:
        "{params.command:q}; {params.summary:q}"
