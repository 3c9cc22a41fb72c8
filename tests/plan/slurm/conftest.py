"""Clusters for the tests, as SLURM describes them.

The outputs of 22.05 were recorded; those of 20.11, 23.11 and 24.11 are composed of what sites
show of theirs, with the fields of that version, so that each form that matters occurs once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gemmgrid.plan.config.machines import Machine, load_machines
from gemmgrid.plan.slurm.site import Site, parse_nodes, parse_partitions

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


@pytest.fixture
def small() -> Site:
    """Three partitions: cpu (ice1, ice2, mil1), gpu (gpu1) and fat (fat1), at most an hour."""
    return Site(
        parse_partitions(recorded("22.05-partitions")), parse_nodes(recorded("22.05-nodes"))
    )


@pytest.fixture
def large() -> Site:
    """A site with accounts, limits, nodes that are down, and cores kept for the system."""
    return Site(
        parse_partitions(recorded("23.11-partitions")), parse_nodes(recorded("23.11-nodes"))
    )


@pytest.fixture
def entry(tmp_path: Path) -> Callable[[str], dict[str, Machine]]:
    """Reads entries as config/machines.yaml of the project folder `tmp_path`."""

    def read(text: str) -> dict[str, Machine]:
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config/machines.yaml").write_text(text)
        return load_machines(tmp_path)

    return read
