"""The program that measures what sending costs finds figures that can be true."""

from __future__ import annotations

import sys

from tests.slurm.project import MACHINES
from tests.workflow.project import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import slurm as costs


def test_an_allocation_is_taken_apart(cluster, project):
    project.send_to(node=MACHINES["milan"])
    found = costs.cell_cost(project, "node", 3)
    assert found.cells == 3
    assert 0 < found.between_s < found.first_s + found.after_s < 120


def test_waiting_is_measured(cluster, project):
    project.send_to(node=MACHINES["milan"])
    share = costs.waiting_share(project, "node", quiet_s=4.0, settled_s=3.0)
    assert 0 <= share < 0.5  # its questions to SLURM come every two seconds here
    cluster.revive()
