"""Placements on machines that are described by a tree of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmgrid.measure.invocation.outcome import Ended
from gemmgrid.measure.invocation.pinning import choose, pin
from gemmgrid.records.cell import Cell


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two sockets of two caches of two cores of two CPUs: 0 to 7 the first of each core, 8 to 15
    the second, as Linux numbers them."""
    for cpu in range(16):
        core = cpu % 8
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}"
        first = core // 2 * 2
        shared = f"{first}-{first + 1},{first + 8}-{first + 9}"
        files = {
            "topology/physical_package_id": core // 4,
            "topology/thread_siblings_list": f"{core},{core + 8}",
            "cache/index0/level": 1,
            "cache/index0/shared_cpu_list": f"{core},{core + 8}",
            "cache/index3/level": 3,
            "cache/index3/shared_cpu_list": shared,
        }
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n", encoding="ascii")
    return tmp_path


@pytest.mark.parametrize(
    ("placement", "threads", "expected"),
    [
        ("close", 1, [0]),
        ("close", 2, [0, 1]),
        ("close", 4, [0, 1, 8, 9]),
        ("close", 8, [0, 1, 2, 3, 8, 9, 10, 11]),
        ("spread", 1, [0]),
        ("spread", 2, [0, 4]),
        ("spread", 4, [0, 2, 4, 6]),
        ("spread", 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("spread", 16, list(range(16))),
        ("9,0-2,1", 3, [0, 1, 2, 9]),
    ],
)
def test_close_fills_a_cache_and_spread_all_of_them(tree, placement, threads, expected):
    assert choose(placement, threads, list(range(16)), tree) == expected


def test_only_allowed_cpus_are_chosen(tree):
    assert choose("close", 2, [3, 5, 13], tree) == [3, 5]
    assert choose("spread", 2, [4, 5, 12], tree) == [4, 5]


def test_a_machine_that_tells_nothing_still_gives_cpus(tmp_path):
    assert choose("close", 2, [0, 1, 2], tmp_path) == [0, 1]
    assert choose("spread", 2, [0, 1, 2], tmp_path) == [0, 1]


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("t1.cpus4095", "placement: CPU 4095 is none that this process may use"),
        ("t2.cpus0", "placement: 1 CPUs for 2 threads"),
    ],
)
def test_a_placement_that_cannot_be_is_unsupported(cell, reason):
    with pytest.raises(Ended) as ended:
        pin(Cell.parse(f"gemm.float32.64x64x64.{cell}"))
    assert (ended.value.status, ended.value.reason) == ("unsupported", reason)
