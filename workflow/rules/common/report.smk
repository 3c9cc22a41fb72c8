# The report's commands, and what makes its tables out of date.

PAGE = "reports/index.html"
RESULTS = ("--results", "results")
TABLES = [
    f"results/tables/{name}.{kind}" for name in ("cells", "runs") for kind in ("csv", "parquet")
]


def hash_brought():
    """A hash of the runs that this study does not plan: other machines', other studies'."""
    wanted = {cell.path for cell in PLAN.cells}
    found = []
    for path in sorted(map(str, Path("results").glob("[!.]*/*/*.jsonl"))):
        if path not in wanted:
            found.append((path, Path(path).stat().st_mtime_ns))
    return digest(found)


BROUGHT = hash_brought()


def reporting(what, *arguments):
    """A command of the report wing; under --use-conda its environment's Python runs it."""
    python = "python" if DEPLOY == "conda" else sys.executable
    return [
        "env",
        f"PYTHONPATH={PACKAGE}",
        python,
        "-m",
        "gemmgrid.report",
        what,
        *RESULTS,
        *arguments,
    ]


# Functions of `threads` are not tracked by Snakemake: another path is no reason to run again.
def tabulate_command(wildcards, threads):
    return reporting("tables")


def render_command(wildcards, threads):
    return reporting("page", "--out", PAGE)


def summary_command(wildcards, threads):
    return reporting("summary")


def gate_command(wildcards, threads):
    return reporting("gate", "--marker", COMPLETE)


def report_command(wildcards, threads):
    return reporting("all", "--out", PAGE)
