# What SLURM is asked for, which cells share an allocation, and what happens to those that are lost.

import dataclasses
from logging import WARNING

import immutables
import snakemake_executor_plugin_slurm
from snakemake_interface_executor_plugins.settings import ExecMode
from snakemake_interface_logger_plugins.common import LogEvent

from gemmgrid.plan.slurm import campaign, forecast, need, outcome, preflight, sending, site, trial
from gemmgrid.plan.slurm.held import Held
from gemmgrid.plan.slurm.watch import Watch

RUN_SENT = f"{RUN_ROUND} --keep {{params.keep:q}}"
CAMPAIGN = campaign.Campaign(Path(STATE, "slurm/campaign.json"))
HELD_BY_SLURM = Held()
IS_MAIN = workflow.exec_mode == ExecMode.DEFAULT and not workflow.output_settings.dryrun
FORECAST = []  # whether it has been shown
BEFORE = {}  # the cells' files when sending began: path → size and time of change


def machine_of(wildcards):
    planned(wildcards)  # says what to do where there is no such cell
    return PLAN.machines[wildcards.machine]


def asked_for(key):
    """A resource that the machine's entry names as it is."""
    return lambda wildcards: getattr(machine_of(wildcards), key)


def cpus_of(wildcards):
    """The step is bound to as many cores as the job has threads: all of the node's."""
    return machine_of(wildcards).cpus or 1  # without the key nothing is sent: see check_machines


def other_words(wildcards):
    return "--exclusive" if machine_of(wildcards).exclusive else None


def memory(wildcards):
    return need.memory_mb(planned(wildcards).cell, PLAN.settings, machine_of(wildcards))


def minutes(wildcards):
    return need.minutes(PLAN.settings)


def kept_file(wildcards, threads):
    """Where the job keeps its run, out of Snakemake's reach."""
    return f"{KEPT}/{wildcards.machine}/{wildcards.backend}/{wildcards.cell}.{wildcards.round}.json"


def allocation(wildcards):
    """The group of a job: a machine, and a round, so that rounds are apart in time."""
    # Only after all files are read does Snakemake have its settings for groups.
    if not workflow.group_settings.group_components:
        workflow.group_settings = dataclasses.replace(
            workflow.group_settings, group_components=immutables.Map(SIZES)
        )
    return f"{wildcards.machine}.{wildcards.round}"


def sizes():
    """How many cells share an allocation, by group."""
    wanted = ASKED.get("cells_per_allocation")
    if wanted is not None and (type(wanted) is not int or wanted < 1):
        raise WorkflowError(
            f"--config cells_per_allocation: found {wanted!r}; allowed: a number of at least 1"
        )
    try:
        counts = {
            name: need.cells_per_allocation(machine, PLAN.settings, wanted)
            for name, machine in PLAN.machines.items()
        }
    except ConfigError as error:
        raise WorkflowError(str(error)) from None
    return {f"{name}.{number}": count for name, count in counts.items() for number in ROUNDS}


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


def sent(job, slurm_id):
    jobs = members(job)
    if jobs:
        name = jobs[0].wildcards.machine
        CAMPAIGN.add(slurm_id, name, map(path_of, jobs))
        say(f"{spell(len(jobs))} of {name} sent as SLURM job {slurm_id}")


def ended(job, slurm_id, message):
    jobs = members(job)
    if not jobs:
        return
    name = jobs[0].wildcards.machine
    if slurm_id is None:
        told = re.search(r"error message was '(.*?)'", message, re.S)
        text = " ".join((told[1] if told else message).split())
        found = outcome.Outcome("", "REFUSED", f"REFUSED: SLURM did not take the job: {text}")
        sent_as = CAMPAIGN.add(None, name, map(path_of, jobs))
    else:
        found = outcome.of(slurm_id)
        if slurm_id in HELD_BY_SLURM.given_up:
            text = HELD_BY_SLURM.given_up[slurm_id]
            found = dataclasses.replace(found, state="HELD", text=text)
        sent_as = CAMPAIGN.find(slurm_id) or CAMPAIGN.add(slurm_id, name, map(path_of, jobs))
    sent_as.outcome = found
    logs = Path(".snakemake/slurm_logs").rglob(f"{slurm_id}.log")
    say(f"{name}: {found.text}" + "".join(f"\n  its log: {log}" for log in logs))


def is_told_already(record):
    """Snakemake's own words about a lost group are a page for each, without SLURM's reason."""
    event = getattr(record, "event", None)
    if event == LogEvent.GROUP_ERROR:
        return True
    return event == LogEvent.JOB_ERROR and str(getattr(record, "rule_name", "")).startswith(
        "measure_"
    )


SIZES = sizes()
if IS_MAIN:
    sending.install(snakemake_executor_plugin_slurm)
    watch = Watch(sent, ended, hopeless=HELD_BY_SLURM)
    watch.install(snakemake_executor_plugin_slurm)
    logger.addFilter(lambda record: not is_told_already(record))


def recover():
    """Append what nodes have measured and no `gather` has seen."""
    command = [*OURS, "gemmgrid.measure", "recover", "--kept", KEPT]
    if Path(KEPT).is_dir():
        subprocess.run(command, check=False)


def take_up():
    """Before the DAG is made: what an interrupted run left is measured already."""
    if hold_folder():  # otherwise the workflow that has it is at it
        recover()


def send_over():
    """An interrupted run's allocations may still be there: what they have not measured is sent anew."""
    left = campaign.left_behind(CAMPAIGN.file)
    if left:
        problem = campaign.cancel(left)
        say(
            f"SLURM jobs {', '.join(left)} of an interrupted run could not be cancelled: {problem}"
            if problem
            else f"cancelled SLURM jobs {', '.join(left)} of an interrupted run: what they measured "
            "is kept, the rest is sent again"
        )


def groups_to_send():
    """The allocations that the DAG would send: a list of measuring jobs each."""
    grouped = {}
    for job in workflow.dag.needrun_jobs():
        if job.rule.name.startswith("measure_"):
            grouped.setdefault(id(workflow.dag._group.get(job, job)), []).append(job)
    return list(grouped.values())


def allocation_of(jobs):
    """What an allocation of these jobs asks for."""
    machine = PLAN.machines[jobs[0].wildcards.machine]
    return forecast.Allocation(
        machine=machine.name,
        cells=len(jobs),
        minutes=len(jobs) * need.minutes(PLAN.settings),
        cpus=machine.cpus,
        memory_mb=max(memory(job.wildcards) for job in jobs),
        partition=machine.partition,
        constraint=machine.constraint,
        gres=machine.gres,
        exclusive=machine.exclusive,
    )


def check_machines(allocations, cluster):
    """Say what is odd about the machines' entries, and stop where SLURM would not take them."""
    asked = {}  # the entries, with the memory and the minutes that will be asked for
    for name in dict.fromkeys(one.machine for one in allocations):
        own = [one for one in allocations if one.machine == name]
        asked[name] = dataclasses.replace(
            PLAN.machines[name],
            memory_mb=max(one.memory_mb for one in own),
            runtime_min=max(one.minutes for one in own),
        )
    found = preflight.check(asked, cluster, ROOT)
    for note in found.notes:
        say(f"note: {note}")
    problems = [text + more_words(text, asked) for text in found.problems]
    if not problems and cluster.problem is None:
        refused = [trial.problem(one, one.runtime_min, one.memory_mb) for one in asked.values()]
        problems = [*filter(None, refused), *filter(None, map(wrong_account, asked.values()))]
    if problems:
        raise WorkflowError("\n".join(problems))


def wrong_account(machine):
    """Why the plugin would not send with this account: it asks whether the user has it."""
    try:
        if machine.account:
            snakemake_executor_plugin_slurm.validate_account(machine.account, logger)
    except WorkflowError as error:
        return f"config/machines.yaml, {machine.name}.account: {' '.join(str(error).split())}"
    except OSError:  # no sacctmgr and no sshare: nobody can tell
        return None


def more_words(text, asked):
    """What to do about a limit that the user did not write."""
    for name, machine in asked.items():
        if f"{name}.runtime_min" in text and PLAN.machines[name].runtime_min is None:
            return (
                f" It is the sum over the cells of an allocation, {need.minutes(PLAN.settings)} "
                "minutes each at most: with runtime_min in the entry they are spread over more."
            )
        if f"{name}.memory_mb" in text and PLAN.machines[name].memory_mb is None:
            return " It is what the largest cell of the study needs."
    return ""


def show_forecast(record):
    """In a dry run, where Snakemake lists its jobs: what would be sent where, and no more."""
    if FORECAST:
        return record.levelno >= WARNING or not workflow.output_settings.quiet
    if getattr(record, "event", None) == LogEvent.RUN_INFO:
        FORECAST.append(True)
        allocations = [allocation_of(jobs) for jobs in groups_to_send()]
        cluster = site.read()
        nodes = None
        if cluster.problem is None:
            nodes = {n: len(preflight.matching(m, cluster)) for n, m in PLAN.machines.items()}
        print(forecast.forecast(allocations, nodes), flush=True)
        if allocations:
            check_machines(allocations, cluster)
    return True


def state_of(path):
    file = Path(path)
    return (file.stat().st_size, file.stat().st_mtime_ns) if file.exists() else None


def record_lost():
    """A run that says `lost`, and why, for each cell whose allocation ended without it."""
    outcomes = CAMPAIGN.outcomes()
    lost = [path for path in BEFORE if path in outcomes and state_of(path) == BEFORE[path]]
    entries = []
    by_path = {cell.path: cell for cell in PLAN.cells}
    for path in lost:
        cell, found = by_path[path], outcomes[path]
        backend = PLAN.backends[cell.backend]
        deploy = "none" if backend.of_site else DEPLOY
        place = {"job_id": found.job, "node": found.node, "partition": found.partition}
        entries.append(
            {
                "machine": cell.machine,
                "spec": cell.spec,
                "deploy": deploy,
                "environment": backend.environment,
                "out": path,
                "reason": found.text,
                "slurm": place if found.job else None,
            }
        )
    if not entries:
        return
    file = Path(STATE, "slurm/lost.json")
    write_atomically(file, json.dumps(entries).encode())
    command = [*OURS, "gemmgrid.measure", "lost", "--study", STUDY, "--cells", str(file)]
    subprocess.run(command, check=False)
    # Whoever starts the workflow again wants them measured: to Snakemake they are not finished.
    for job in workflow.dag.jobs:
        if job.rule.name == "gather" and path_of(job) in lost:
            workflow.persistence.started(job)
    say(f"{spell(len(lost))} lost; the same command sends them again")


if IS_MAIN:
    take_up()
elif workflow.output_settings.dryrun:
    logger.addFilter(show_forecast)
