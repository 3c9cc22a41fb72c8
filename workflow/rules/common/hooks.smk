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


NO_MACHINES = (
    "--profile profiles/slurm sends cells to nodes, and this study says no `machines:`, so they would "
    "all go by the name of this host. Describe the nodes in config/machines.yaml and name them: "
    "--config machines=NAME,NAME"
)
LIMITS = set(workflow.resource_settings.resources)  # slot is one where the profile is used
if workflow.output_settings.dryrun and "slot" in LIMITS and not PLAN.machines:
    print(f"gemmgrid: nothing would be sent. {NO_MACHINES}", file=sys.stderr)


def before_sending(jobs):
    """Refuse what would be measured on another machine than its name says; look for leftovers."""
    through_slurm = workflow.executor_plugin.name == "slurm"
    if jobs and PLAN.machines and not through_slurm:
        names = ", ".join(PLAN.machines)
        raise WorkflowError(
            f"machines: {names} are reached through SLURM: add --profile profiles/slurm. Inside an "
            "allocation on such a node, say --config machine=NAME instead of machines."
        )
    if jobs and through_slurm and not PLAN.machines:
        raise WorkflowError(NO_MACHINES)
    if jobs and through_slurm and not {"slot", "shared"} <= LIMITS:
        raise WorkflowError(
            "the cells of an allocation would be measured at the same time: add --profile "
            "profiles/slurm, which limits the resources slot and shared to 1"
        )
    if jobs and through_slurm and not shutil.which("sbatch"):
        raise WorkflowError(
            "there is no `sbatch` on the PATH: start this on a host from which jobs can be sent to "
            "SLURM, such as a login node"
        )
    if jobs and PLAN.machines:
        check_machines([allocation_of(group) for group in groups_to_send()], site.read())
        send_over()
        BEFORE.update({path: state_of(path) for path in map(path_of, jobs)})


def after_sending():
    if MEASURED and PLAN.machines:
        recover()
        tell_snakemake()


def write_plan(jobs):
    """What jobs and report read: the plan, the study, and how many cells there are to measure."""
    PLAN.write(Path(STATE, "plan.jsonl"), [str(path) for path in CONFIGFILES])
    study = {
        "study": PLAN.study,
        "settings": PLAN.settings,
        "seed": PLAN.seed,
        "orders": {f"{c.machine}/{c.backend}/{c.name}": c.order for c in PLAN.cells},
        "tool": describe_tool(),
        "promises": PLAN.promises,
    }
    write_atomically(Path(STUDY), json.dumps(study).encode())
    cells = {(job.wildcards.machine, job.wildcards.backend, job.wildcards.cell) for job in jobs}
    # On nodes a cell counts when it has arrived; here every job of a cell's rounds counts.
    progress = {"total": len(cells if PLAN.machines else jobs), "seconds": []}
    write_atomically(Path(STATE, "progress.json"), json.dumps(progress).encode())
    if jobs:
        print(
            f"gemmgrid: study {PLAN.study} on {', '.join(sorted({c.machine for c in PLAN.cells}))}: "
            f"{len(cells)} of {len(PLAN.cells)} cells to measure, "
            f"{len(PLAN.skipped)} left out with a reason",
            file=sys.stderr,
        )


onstart:
    needed = list(workflow.dag.needrun_jobs())
    jobs = [job for job in needed if job.rule.name.startswith("measure_")]
    alone = hold_folder()
    if jobs and not alone:
        raise WorkflowError("another gemmgrid workflow is running in this folder")
    MEASURED.extend(jobs)
    before_sending(jobs)
    # A report in the meantime leaves to the other workflow what is its own.
    if alone:
        backends = [PLAN.backends[name] for name in {job.wildcards.backend for job in jobs}]
        if any(job.rule.name == "explain" for job in needed):
            backends.append(EXPLAINED)
        build_environments(backends)
        write_plan(jobs)


def report_what_is_there(*commands):
    """Run report commands outside the jobs: after one cell alone, or when a job was lost."""
    for command in commands:
        subprocess.run(command, check=False)


onsuccess:
    after_sending()
    if MEASURED and PLAN.machines:
        CAMPAIGN.close()
    # `-f` on one cell's file asks for no page, but the page should show the new run.
    if MEASURED and older_than(PAGE, STARTED):
        report_what_is_there(reporting_now("all", "--out", PAGE))
        if Path(COMPLETE).exists():
            report_what_is_there(reporting_now("gate", "--marker", COMPLETE))


onerror:
    after_sending()
    # A lost job blocks everything behind it: make the report of what is there.
    if MEASURED and older_than(PAGE, STARTED):
        report_what_is_there(reporting_now("all", "--out", PAGE), reporting_now("summary"))
