# From runs to tables, page and summary. The report scans what lies under results/, so that cells
# which failed, or came from other machines, are in it; only `complete` insists on all of them.

REPORT = [sys.executable, "-m", "gemmgrid.report"]
PAGE = "reports/index.html"
TABLES = [
    f"results/tables/{name}.{kind}" for name in ("cells", "runs") for kind in ("csv", "parquet")
]


def all_runs(wildcards):
    """The planned cells, and whatever other machines' folders hold."""
    wanted = {cell.path for cell in PLAN.cells}
    brought = {str(path) for path in Path("results").glob("[!.]*/*/*.jsonl")}
    return sorted(wanted | brought)


rule tabulate:
    input:
        all_runs,
    output:
        TABLES,
    params:
        plan=PLAN.digest,
    shell:
        "PYTHONPATH={PACKAGE:q} {REPORT:q} tables --results results"


rule render:
    input:
        TABLES,
    output:
        PAGE,
    shell:
        "PYTHONPATH={PACKAGE:q} {REPORT:q} page --results results --out {output:q}"


rule complete:
    input:
        PAGE,
    output:
        COMPLETE,
    params:
        plan=PLAN.digest,
    shell:
        "PYTHONPATH={PACKAGE:q} {REPORT:q} summary --results results; "
        "PYTHONPATH={PACKAGE:q} {REPORT:q} gate --results results --marker {output:q}"


# The page from what is there, without measuring anything: `snakemake --cores 1 report`.
rule report:
    shell:
        "PYTHONPATH={PACKAGE:q} {REPORT:q} all --results results --out {PAGE:q}; "
        "PYTHONPATH={PACKAGE:q} {REPORT:q} summary --results results"


localrules:
    tabulate,
    render,
    complete,
    report,


def report_what_is_there(*commands):
    """Run report commands outside the jobs: after one cell alone, or when a job was lost."""
    environment = {**os.environ, "PYTHONPATH": PACKAGE}
    for arguments in commands:
        subprocess.run([*REPORT, *arguments], env=environment, check=False)


ALL = ("all", "--results", "results", "--out", PAGE)


onsuccess:
    # `-f` on one cell's file asks for no page, but the page should show the new run.
    if MEASURED and older_than(PAGE, STARTED):
        report_what_is_there(ALL)


onerror:
    # A lost job blocks everything behind it: make the report of what is there.
    if older_than(PAGE, STARTED):
        report_what_is_there(ALL, ("summary", "--results", "results"))
