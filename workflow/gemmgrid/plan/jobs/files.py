"""Where the workflow keeps its files, and which of them are made of something else than lies there.

All paths are relative to the folder of a run. File times decide nothing here.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path
from typing import TextIO

from gemmgrid.plan.jobs.commands import digest_of
from gemmgrid.records import stamp

STATE = "results/.plan"
LOGS = f"{STATE}/logs"
PLAN, STUDY = f"{STATE}/plan.jsonl", f"{STATE}/study.json"
BLOCKS, PARTS = f"{STATE}/blocks.jsonl", f"{STATE}/parts"
COMPLETE, STAMP = f"{STATE}/complete.json", f"{STATE}/tables.stamp"
LOOK = f"{STATE}/now/{{machine}}.json"
PAGE = "reports/index.html"
TABLES = [
    *(f"results/tables/{name}.{kind}" for name in ("cells", "runs") for kind in ("csv", "parquet")),
    *("results/tables/comparisons.csv", "results/tables/problems.csv"),
]
TOKEN = f"{STATE}/tokens/{{machine}}/{{block}}.{{round}}"
SETTLED = f"{STATE}/tokens/{{machine}}/{{block}}.settled"


def plan_is_due(digest: str) -> bool:
    """Whether the plan on disk is another one than that of this digest."""
    return not Path(PLAN).exists() or digest_of(Path(STUDY)) != digest


def tables_are_due(digest: str) -> bool:
    """Whether the tables were made from other results, or of another plan, or one is missing."""
    if not all(map(os.path.exists, TABLES)):
        return True
    return stamp.read(Path(STAMP)) != stamp.stamp(Path("results"), digest)


class Folder:
    """The folder of a run, as one workflow has it to itself; unlike Snakemake's lock, this one goes
    with its process however that ends."""

    def __init__(self) -> None:
        self._held: TextIO | None = None

    def hold(self) -> bool:
        """Whether this workflow has the folder, or could have it from now on."""
        if self._held is None:
            folder = Path(".snakemake")
            folder.mkdir(exist_ok=True)
            held = (folder / "gemmgrid.lock").open("w", encoding="ascii")
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.close()
                return False
            except OSError as error:  # a file system without locks
                print(
                    f"gemmgrid: note: no lock in {folder}: {error.strerror}; start one workflow at "
                    "a time",
                    file=sys.stderr,
                )
            self._held = held
        return True

    def forget(self, start: str) -> None:
        """Remove what says that jobs of a start have ended, also what killed starts left of it."""
        if self.hold():
            looks = [log for log in Path(LOGS, "look").glob("*") if start not in log.name]
            for file in (*Path(STATE, "due").glob("*"), *looks):
                file.unlink(missing_ok=True)
