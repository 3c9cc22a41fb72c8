# Before the first job: the folder's lock, the environments, the plan and the study on disk. After
# the last: a page that shows what was measured, whatever was asked for and whatever went wrong.


def describe_tool():
    """Version, commit and whether files were changed since, for the records."""

    def git(*arguments):
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None

    changed = git("status", "--porcelain", "--untracked-files=no")
    return {
        "version": gemmgrid.__version__,
        "commit": git("rev-parse", "HEAD"),
        "dirty": None if changed is None else bool(changed),
    }


def hold_folder():
    """Keep a second workflow out of this folder; unlike Snakemake's lock it dies with us."""
    folder = Path(".snakemake")
    folder.mkdir(exist_ok=True)
    held = (folder / "gemmgrid.lock").open("w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise WorkflowError("another gemmgrid workflow is running in this folder") from None
    return held


def refuse_slurm(jobs):
    """Do not measure here what belongs to other machines."""
    if jobs and PLAN.machines:
        raise WorkflowError(
            f"machines: {', '.join(PLAN.machines)} would be measured through SLURM, which this "
            "version cannot do yet: here they would all be this machine. Leave the key out, measure "
            "on each machine, and bring the folders under results/ together."
        )


onstart:
    HELD.append(hold_folder())
    jobs = [job for job in workflow.dag.needrun_jobs() if job.rule.name.startswith("measure_")]
    refuse_slurm(jobs)
    MEASURED.extend(jobs)
    backends = [PLAN.backends[name] for name in {job.wildcards.backend for job in jobs}]
    if any(job.rule.name == "explain" for job in workflow.dag.needrun_jobs()):
        backends.append(EXPLAINED)
    build_environments(backends)
    PLAN.write(Path(STATE, "plan.jsonl"), [str(path) for path in CONFIGFILES])
    study = {
        "study": PLAN.study,
        "settings": PLAN.settings,
        "seed": PLAN.seed,
        "orders": {f"{c.machine}/{c.backend}/{c.name}": c.order for c in PLAN.cells},
        "tool": describe_tool(),
    }
    write_atomically(Path(STUDY), json.dumps(study).encode())
    progress = {"total": len(jobs), "seconds": []}
    write_atomically(Path(STATE, "progress.json"), json.dumps(progress).encode())
    if jobs:
        print(
            f"gemmgrid: study {PLAN.study} on {', '.join(sorted({c.machine for c in PLAN.cells}))}: "
            f"{len(jobs)} of {len(PLAN.cells)} cells to measure, "
            f"{len(PLAN.skipped)} left out with a reason",
            file=sys.stderr,
        )


def report_what_is_there(*commands):
    """Run report commands outside the jobs: after one cell alone, or when a job was lost."""
    for command in commands:
        subprocess.run(command, check=False)


onsuccess:
    # `-f` on one cell's file asks for no page, but the page should show the new run.
    if MEASURED and older_than(PAGE, STARTED):
        report_what_is_there(reporting_now("all", "--out", PAGE))
        if Path(COMPLETE).exists():
            report_what_is_there(reporting_now("gate", "--marker", COMPLETE))


onerror:
    # A lost job blocks everything behind it: make the report of what is there.
    if MEASURED and older_than(PAGE, STARTED):
        report_what_is_there(reporting_now("all", "--out", PAGE), reporting_now("summary"))
