# Before anything is sent: whether SLURM would take it, and in a dry run what it would be.

from logging import WARNING

import snakemake_executor_plugin_slurm
from snakemake_interface_logger_plugins.common import LogEvent

from gemmgrid.plan.slurm import forecast, preflight, site, trial

FORECAST = []  # whether it has been shown


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
        words = words_of_the_command_line()
        refused = [
            trial.problem(one, one.runtime_min, one.memory_mb, words) for one in asked.values()
        ]
        problems = [*filter(None, refused), *filter(None, map(wrong_account, asked.values()))]
    if problems:
        raise WorkflowError("\n".join(problems))


def words_of_the_command_line():
    """What --slurm-qos and --slurm-reservation add to every request."""
    settings = workflow.executor_settings
    named = {name: getattr(settings, name, None) for name in ("qos", "reservation")}
    return [f"--{name}={value}" for name, value in named.items() if value]


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


if workflow.output_settings.dryrun:
    logger.addFilter(show_forecast)
