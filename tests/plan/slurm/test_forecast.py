"""The text of `make slurm-plan`, as it is printed."""

from __future__ import annotations

from gemmgrid.plan.slurm.forecast import WIDTH, Allocation, forecast, largest

ICE = Allocation("icelake", 50, 120, 64, 64000, "cpu", "icelake&avx512")
LAST = Allocation("icelake", 20, 55, 64, 64000, "cpu", "icelake&avx512")
H200 = Allocation("h200", 12, 60, 16, 4000, "gpu", gres="gpu:h200:1", exclusive=False)


def test_several_machines():
    assert (
        forecast([ICE, ICE, H200, LAST], {"icelake": 2, "h200": 1})
        == """\
machine  allocations  cells   each  time limit  CPUs   memory  node-hours  nodes
icelake            3    120  20–50   0:55–2:00    64    62 GB         4.9      2
h200               1     12     12        1:00    16  4000 MB         1.0      1
--------------------------------------------------------------------------------
total              4    132                                           5.9

icelake: partition cpu, constraint icelake&avx512, the node alone
h200: partition gpu, gres gpu:h200:1, a node shared with others

each: cells of one allocation, measured one after the other. time limit: hours:minutes. node-hours:
at most, as if every allocation held a node until its time limit. nodes: how many of the cluster
match."""
    )


def test_without_the_cluster_and_with_little_known():
    assert (
        forecast([Allocation("plain", 1, 90, None, None)])
        == """\
machine  allocations  cells  each  time limit  CPUs  memory  node-hours
plain              1      1     1        1:30     ?       ?         1.5
-----------------------------------------------------------------------
total              1      1                                         1.5

plain: the default partition, the node alone

each: cells of one allocation, measured one after the other. time limit: hours:minutes. node-hours:
at most, as if every allocation held a node until its time limit."""
    )


def test_a_machine_that_asks_in_two_ways_and_is_unknown_to_the_cluster():
    text = forecast([ICE, Allocation("icelake", 5, 120, 64, 64000)], {})
    assert "icelake: partition cpu, constraint icelake&avx512, the node alone / the default" in text
    assert text.splitlines()[1].endswith("?")


def test_it_fits_the_terminal_whatever_the_names():
    name = "a-machine-with-a-name-of-sixty-four-characters-that-is-the-limit"
    many = [
        Allocation(name, cells, minutes, cpus, memory, "p" * 60, "c" * 120, "gpu:" + "g" * 60)
        for cells, minutes, cpus, memory in ((1, 1, 1, 900), (1000, 20160, 512, 2_000_000))
        for _ in range(600)
    ]
    text = forecast(many, {name: 10_000})
    assert max(map(len, text.splitlines())) <= WIDTH
    assert f"{name}:" in text
    assert "1–1000" in text
    assert "0:01–336:00" in text
    assert "900 MB–1953 GB" in text
    assert "201,610.0" in text


def test_nothing_to_send():
    assert forecast([]) == (
        "Nothing to send: every cell of every machine behind SLURM has been measured."
    )


def test_the_largest_of_each_machine_stands_for_all():
    (ice, h200) = largest([LAST, ICE, H200, LAST])
    assert (ice.cells, ice.minutes, ice.memory_mb) == (50, 120, 64000)
    assert h200 == H200
