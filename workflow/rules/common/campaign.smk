# What is sent, what ends and why; what an interrupted run left; what becomes of cells that are lost.

from snakemake_interface_executor_plugins.settings import ExecMode

from gemmgrid.plan.slurm import campaign, outcome, sending
from gemmgrid.plan.slurm.held import Held
from gemmgrid.plan.slurm.watch import Watch
from gemmgrid.records import elsewhere, history

CAMPAIGN = campaign.Campaign(Path(STATE, "slurm/campaign.json"))
HELD_BY_SLURM = Held()
CELL_OF = {}  # a job's part of a cell → the cell's file
BEFORE = {}  # the cells' files when sending began: path → size and time of change
CANCELLED = []  # whether the user has ended the workflow
IS_MAIN = workflow.exec_mode == ExecMode.DEFAULT and not workflow.output_settings.dryrun
RECOVERED = set()  # histories to which nodes' runs were appended without a `gather`


def members(job):
    """The measuring jobs of a job or group."""
    jobs = job.jobs if job.is_group() else [job]
    return [one for one in jobs if one.rule.name.startswith("measure_")]


def path_of(job):
    return f"results/{job.wildcards.machine}/{job.wildcards.backend}/{job.wildcards.cell}.jsonl"


def spell(count):
    return "1 cell" if count == 1 else f"{count} cells"


def say(text):
    print(f"gemmgrid: {text}", file=sys.stderr, flush=True)


def note_sent(slurm_id, jobs):
    """Keep in mind which parts of cells an allocation has: the rounds of a cell go separately."""
    parts = {str(job.output[0]): path_of(job) for job in jobs}
    CELL_OF.update(parts)
    return CAMPAIGN.add(slurm_id, jobs[0].wildcards.machine, parts)


def sent(job, slurm_id):
    jobs = members(job)
    if jobs:
        note_sent(slurm_id, jobs)
        say(f"{spell(len(jobs))} of {jobs[0].wildcards.machine} sent as SLURM job {slurm_id}")


def ended(job, slurm_id, message):
    jobs = members(job)
    if not jobs:
        return
    found = outcome.of(slurm_id) if slurm_id else outcome.refused(message)
    if slurm_id in HELD_BY_SLURM.given_up:
        text = HELD_BY_SLURM.given_up[slurm_id]
        found = outcome.Outcome(slurm_id, "HELD", text, found.node, found.partition)
    allocation = CAMPAIGN.find(slurm_id) if slurm_id else None
    (allocation or note_sent(slurm_id, jobs)).outcome = found
    logs = Path(".snakemake/slurm_logs").rglob(f"{slurm_id}.log") if slurm_id else ()
    text = f"{jobs[0].wildcards.machine}: {found.text}"
    say(text + "".join(f"\n  its log: {log}" for log in logs))


def cancelled():
    """Ctrl-C: whatever was sent and has not ended is ended, also what the plugin lost sight of."""
    CANCELLED.append(True)
    campaign.cancel([one.job for one in CAMPAIGN.allocations if one.job and not one.outcome])


def is_told_already(record):
    """Snakemake's own words about a lost group are a page for each, without SLURM's reason."""
    event = getattr(record, "event", None)
    if event == LogEvent.GROUP_ERROR:
        return True
    return event == LogEvent.JOB_ERROR and str(getattr(record, "rule_name", "")).startswith(
        "measure_"
    )


def recover():
    """Append what nodes have measured and no `gather` has taken in."""
    for folder in Path(KEPT).glob("*/*/"):
        # A new file makes a network file system's client look at the folder anew.
        beside = folder / ".look"
        beside.touch()
        beside.unlink(missing_ok=True)
    if Path(KEPT).is_dir():
        command = [*OURS, "gemmgrid.measure", "recover", "--kept", KEPT, "--parts", ROUNDS_FOLDER]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        RECOVERED.update(done.stdout.splitlines())


def take_up():
    """Before the DAG is made: what an interrupted run left is measured already."""
    if hold_folder():  # otherwise the workflow that has it is at it
        recover()


def send_over():
    """End what an interrupted run left at SLURM: what it has not measured is sent anew."""
    left = campaign.left_behind(CAMPAIGN.file)
    if left is None:
        raise WorkflowError(
            f"an interrupted run may have left allocations at SLURM ({CAMPAIGN.file}), and squeue "
            "does not answer, so nobody knows. Try again when it does; or, when none is there any "
            "more, remove that file."
        )
    if not left:
        return
    problem = campaign.cancel(left)
    jobs = f"SLURM jobs {', '.join(left)} of an interrupted run"
    if problem:
        raise WorkflowError(
            f"{jobs} could not be cancelled: {problem}. End them, and start again: "
            f"scancel {' '.join(left)}"
        )
    campaign.wait_until_gone(CAMPAIGN.file)
    recover()
    say(f"cancelled {jobs}: what they measured is kept, the rest is sent again")


def state_of(path):
    file = Path(path)
    return (file.stat().st_size, file.stat().st_mtime_ns) if file.exists() else None


def lost_cells():
    """Path of a cell's file → why it has no new run: one of its parts was lost."""
    found = {}
    for part, ending in CAMPAIGN.outcomes().items():
        path = CELL_OF[part]
        refused_by_us = CANCELLED and ending.state == "REFUSED"
        if path in BEFORE and state_of(path) == BEFORE[path] and not refused_by_us:
            found[path] = ending
    return found


def record_lost(lost):
    """A run that says `lost`, and why, for each of these cells."""
    entries = []
    for cell in PLAN.cells:
        if cell.path in lost:
            ending, backend = lost[cell.path], PLAN.backends[cell.backend]
            place = {"job_id": ending.job, "node": ending.node, "partition": ending.partition}
            entries.append(
                {
                    "machine": cell.machine,
                    "spec": cell.spec,
                    "deploy": "none" if backend.of_site else DEPLOY,
                    "environment": backend.environment,
                    "out": cell.path,
                    "reason": ending.text,
                    "slurm": place if ending.job else None,
                }
            )
    file = Path(STATE, "slurm/lost.json")
    write_atomically(file, json.dumps(entries).encode())
    command = [*OURS, "gemmgrid.measure", "lost", "--study", STUDY, "--cells", str(file)]
    subprocess.run(command, check=False)


def tell_snakemake():
    """What has changed without its doing: which cells are measured, and which are not after all.

    Whoever starts the workflow again wants lost cells measured, and those that ran elsewhere.
    """
    lost, elsewhere_ = lost_cells(), set()
    if lost:
        record_lost(lost)
        say(f"{spell(len(lost))} lost; the same command sends them again")
    for job in workflow.dag.jobs:
        if job.rule.name != "gather":
            continue
        path = path_of(job)
        run = history.latest(Path(path)) if path in BEFORE and path not in lost else None
        if run and elsewhere.is_elsewhere(run):
            elsewhere_.add(path)
        if path in lost or path in elsewhere_:
            workflow.persistence.started(job)
        elif path in RECOVERED:
            workflow.async_run(workflow.persistence.finished(job))
    if elsewhere_:
        say(
            f"{spell(len(elsewhere_))} ran on nodes that are not what config/machines.yaml "
            "promises: see the report. The same command sends them again"
        )


if IS_MAIN:
    sending.install(snakemake_executor_plugin_slurm, cancelled)
    watch = Watch(sent, ended, hopeless=HELD_BY_SLURM)
    watch.install(snakemake_executor_plugin_slurm)
    logger.addFilter(lambda record: not is_told_already(record))
    take_up()
