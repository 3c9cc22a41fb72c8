# Without conda each backend's environment is a venv that uv builds from envs/<name>.txt. They are
# built, or found unchanged, before the first job starts, and are no inputs of the cells: a rebuilt
# environment is no reason to measure again, and an `ancient` input that is made anew hides its
# dependants from the DAG, forced ones and new ones too. A build that fails says so in its marker,
# and the cells of that environment are recorded as env-failed.

BUILD = [*OURS, "gemmgrid.plan.environments", "build"]
PLACES = ["--envs", str(ROOT / "envs"), "--into", ".envs"]
# The orchestrating side's own stack, under --use-conda too: tables, page, gathering of rounds.
REPORT_ENVIRONMENT = str(ROOT / "envs/report.yaml")
# What needs only the standard library runs under the Python that runs Snakemake: under --use-conda
# no environment is made for it.
NO_ENVIRONMENT = None if DEPLOY == "conda" else REPORT_ENVIRONMENT


def venvs(backends):
    """The environments that uv builds for these backends."""
    if DEPLOY != "venv":
        return []
    return sorted({entry.environment for entry in backends if not entry.of_site})


def build_command(name):
    return [*BUILD, name, *PLACES, "--marker", f".envs/{name}.json"]


def build_environments(backends):
    """Make the environments of these backends what their .txt says."""
    for name in venvs(backends):
        subprocess.run(build_command(name), check=False)


def build_all_command(wildcards, threads):
    """One shell command that builds every environment of the study."""
    return "; ".join(map(shlex.join, map(build_command, venvs(PLAN.backends.values())))) or "true"
