"""SLURM's own word before anything is sent: `sbatch --test-only`, as a machine will ask."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from gemmgrid.plan.config.machines import FILE, Machine
from gemmgrid.plan.slurm.ask import ask
from gemmgrid.plan.slurm.outcome import Asking

_SILENT = re.compile(
    r"contact slurm controller|configuration source|temporarily unable|timed out|connection refused"
    r"|communication|zero bytes|authentication|munge",
    re.I,
)
"""What the commands say when the controller cannot be asked: that is no refusal."""


def request(machine: Machine, minutes: int, memory_mb: int) -> list[str]:
    """The words of sbatch for an allocation of this machine, as the plugin writes them."""
    asked = {
        "--partition": machine.partition,
        "--constraint": machine.constraint,
        "--gres": machine.gres,
        "--account": machine.account,
        "--qos": machine.qos,
        "--cpus-per-task": machine.cpus,
        "--time": minutes,
        "--mem": memory_mb,
    }
    words = [f"{option}={value}" for option, value in asked.items() if value is not None]
    words += [] if machine.gpu else ["--ntasks=1"]
    return words + (["--exclusive"] if machine.exclusive else [])


def problem(
    machine: Machine,
    minutes: int,
    memory_mb: int,
    more: Sequence[str] = (),
    asking: Asking = ask,
) -> str | None:
    """Why SLURM would not take the machine's allocations; None where it would, or is silent.

    more   words for sbatch that the command line adds
    """
    words = [*request(machine, minutes, memory_mb), *more]
    answer = asking("sbatch", "--test-only", *words, "--wrap=true", limit_s=20.0)
    refused = re.search(r"ended with exit code \d+: (.*)", answer.reason or "", re.S)
    if not refused or _SILENT.search(refused[1]):
        return None
    said = re.sub(r"^((allocation failure|sbatch: (error|fatal)): )+", "", refused[1])
    return (
        f"{FILE}, {machine.name}: SLURM refuses such an allocation: {said} "
        f"(sbatch --test-only {shlex.join(words)})"
    )
