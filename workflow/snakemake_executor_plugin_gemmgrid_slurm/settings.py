"""What can be set for all jobs: --gemmgrid-slurm-… on the command line, and keys of a profile.

Snakemake reads the annotations when the module is imported, so they must be types, not texts.
"""

from dataclasses import dataclass, field
from pathlib import Path

from snakemake_interface_executor_plugins.settings import ExecutorSettingsBase


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    requeue: bool = field(
        default=False,
        metadata={"help": "Let SLURM start a job again after its node failed or another took it."},
    )
    qos: str = field(default="", metadata={"help": "Quality of service of jobs that name none."})
    reservation: str = field(default="", metadata={"help": "Reservation that all jobs use."})
    extra: str = field(
        default="", metadata={"help": "More words for every sbatch, such as '--mail-type=END'."}
    )
    jobname_prefix: str = field(
        default="snakemake", metadata={"help": "Begin of the jobs' name in SLURM's queue."}
    )
    logdir: Path = field(
        default=Path(".snakemake/slurm_logs"),
        metadata={"help": "Folder of SLURM's logs; those of failed jobs are kept."},
    )
    campaign: Path = field(
        default=Path(".snakemake/slurm_campaign.json"),
        metadata={"help": "File by which the next run finds jobs that a killed one has left."},
    )
