# Where cells are sent to nodes: what is asked for, and what is looked at before anything is sent.

from logging import WARNING

from snakemake_interface_logger_plugins.common import LogEvent

EXECUTOR = "gemmgrid-slurm"
CAMPAIGN = f"{STATE}/slurm/campaign.json"
LIMITS = set(workflow.resource_settings.resources)  # `shared` is one where a profile is used
NO_MACHINES = (
    "--profile profiles/slurm sends cells to nodes, and this study says no `machines:`, so they would "
    "all go by the name of this host. Describe the nodes in config/machines.yaml and name them: "
    "--config machines=NAME,NAME"
)
if workflow.output_settings.dryrun and "shared" in LIMITS and not PLAN.machines:
    print(f"gemmgrid: nothing would be sent. {NO_MACHINES}", file=sys.stderr)


def through_slurm():
    return workflow.executor_plugin is not None and workflow.executor_plugin.name == EXECUTOR


def before_sending(found):
    """Refuse what would be measured on another machine than its name says, and what SLURM would."""
    if PLAN.machines and workflow.local_exec:
        names = ", ".join(PLAN.machines)
        raise WorkflowError(
            f"machines: {names} are reached through SLURM: add --profile profiles/slurm. Inside an "
            "allocation on such a node, say --config machine=NAME instead of machines."
        )
    if not workflow.local_exec and not PLAN.machines:
        raise WorkflowError(NO_MACHINES)
    if not all(one.exclusive for one in PLAN.machines.values()) and "shared" not in LIMITS:
        raise WorkflowError(
            "allocations on nodes that others share would wait for one another there: add --profile "
            "profiles/slurm, which limits the resource shared to 1"
        )
    if not through_slurm():
        return
    if not shutil.which("sbatch"):
        raise WorkflowError(
            "there is no `sbatch` on the PATH: start this on a host from which jobs can be sent to "
            "SLURM, such as a login node"
        )
    sent = forecast.allocations(found, PLAN.machines, PLAN.settings)
    stop_at(check_machines(sent))


def check_machines(allocations):
    """What is wrong with the entries of machines that get allocations, asked of SLURM."""
    settings = workflow.executor_settings
    named = {name: getattr(settings, name, None) for name in ("qos", "reservation")}
    words = [f"--{name}={value}" for name, value in named.items() if value]
    minutes = resources.minutes(PLAN.settings)
    found = checks.check(PLAN.machines, allocations, site.read(), minutes, HERE, words)
    for note in found.notes:
        print(f"gemmgrid: note: {note}", file=sys.stderr, flush=True)
    return found


def stop_at(found):
    if found.problems:
        raise WorkflowError("\n".join(found.problems))


FORECAST = []  # whether it has been shown


def show_forecast(record):
    """In a dry run, where Snakemake lists its jobs: what would be sent where, and no more."""
    if FORECAST:
        return record.levelno >= WARNING or not workflow.output_settings.quiet
    if getattr(record, "event", None) == LogEvent.RUN_INFO:
        FORECAST.append(True)
        sent = forecast.allocations(blocks().values(), PLAN.machines, PLAN.settings)
        found = check_machines(sent)
        print(forecast.forecast(sent, found.nodes), flush=True)
        stop_at(found)
    return True


if workflow.output_settings.dryrun and PLAN.machines:
    logger.addFilter(show_forecast)


def tokens_of(wildcards):
    """What the allocations of a block leave."""
    return [TOKEN.format(**wildcards, round=number) for number in block_of(wildcards).rounds]


def keep_what_is_finished():
    """After an interruption: append what nodes have measured; what they have not may still come."""
    there = all(Path(one).exists() for one in (STUDY, files.BLOCKS, files.PARTS))
    if PLAN.machines and there and hold_folder():  # otherwise the workflow that has it is at it
        subprocess.run([*OURS, "keep"], check=False)


def take_up():
    """Before the DAG is made: what an interrupted run left is ended, and what it measured is kept."""
    if PLAN.machines and through_slurm() and hold_folder():
        from snakemake_executor_plugin_gemmgrid_slurm.leftovers import end_leftovers

        end_leftovers(Path(CAMPAIGN))
    keep_what_is_finished()


def of_machine(key):
    """A resource that the machine's entry names as it is; none where the machine is this one."""
    return lambda wildcards: getattr(PLAN.machines.get(wildcards.machine), key, None)


def cpus_of(wildcards):
    return PLAN.machines[wildcards.machine].cpus or 1  # without the key nothing is sent


RESOURCES = {
    "slurm_partition": of_machine("partition"),
    "constraint": of_machine("constraint"),
    "gres": of_machine("gres"),
    "slurm_account": of_machine("account"),
    "qos": of_machine("qos"),
}
ALLOCATION = {}
if PLAN.machines:
    ALLOCATION = {
        **RESOURCES,
        "slurm_extra": lambda wildcards: (
            "--exclusive" if PLAN.machines[wildcards.machine].exclusive else None
        ),
        "slurm_title": lambda wildcards: (
            f"{resources.counted(len(block_of(wildcards).cells))} of {wildcards.machine}"
        ),
        "slurm_outcome": lambda wildcards: TOKEN.format(**wildcards),
        "cpus_per_task": cpus_of,  # whatever --cores makes of the threads
        "mem_mb": lambda wildcards: resources.block_memory_mb(
            block_of(wildcards).cells, PLAN.settings, PLAN.machines[wildcards.machine]
        ),
        "runtime": lambda wildcards: (
            len(block_of(wildcards).cells) * resources.minutes(PLAN.settings)
        ),
        # Allocations on shared nodes go one at a time: on one node they would wait for one another.
        "shared": lambda wildcards: 0 if PLAN.machines[wildcards.machine].exclusive else 1,
    }
# Here every job takes all cores, so that two never overlap; threads are part of the cell.
THREADS = cpus_of if PLAN.machines else workflow.resource_settings.cores or 1
