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


def reporting(what, *arguments, python="python" if "conda" in METHODS else sys.executable):
    """A command of the report wing; under --use-conda its environment is active in the job."""
    ours = ["env", f"PYTHONPATH={PACKAGE}", python, "-s", "-m"]
    return [*ours, "gemmgrid.report", what, *RESULTS, *arguments]


def reporting_now(what, *arguments):
    """The same outside a job, where no environment is active."""
    made = Path(conda_prefix("report"), "bin/python") if "conda" in METHODS else None
    python = str(made) if made and made.exists() else sys.executable
    return reporting(what, *arguments, python=python)


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
