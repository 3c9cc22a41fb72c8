# What SLURM is asked for, and which cells share an allocation.

import dataclasses

import immutables

from gemmgrid.plan.slurm import need

RUN_SENT = f"{RUN_ROUND} --keep {{params.keep:q}}"


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


def beside_others(wildcards):
    """Allocations on shared nodes go one at a time: on one node they would wait for one another."""
    return 0 if machine_of(wildcards).exclusive else 1


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


SIZES = sizes()
