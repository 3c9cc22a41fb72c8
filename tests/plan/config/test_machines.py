"""Machines behind SLURM: their entries, and how a grid fans out over them."""

from __future__ import annotations

import pytest

from gemmgrid.plan import ConfigError
from gemmgrid.plan.config.machines import Target
from tests.plan.conftest import block, names

ENTRIES = """
icelake: {partition: cpu, constraint: icelake, cpus: 64, cores: 32, memory_mb: 64000}
grace: {platform: linux-aarch64, cpus: 72, threads: [1, all], backends: "numpy-*, torch-cpu"}
h200: {partition: gpu, gres: "gpu:h200:1", cpus: 16, runtime_min: 60, backends: [torch-cuda]}
plain:
"""


def on_slurm(project, machines, **config):
    (project.root / "config/machines.yaml").write_text(ENTRIES)
    grid = config.pop("grid", [block(threads=["all", "physical"])])
    return project.plan({"grid": grid, "machines": machines, **config})


def placed(plan):
    return sorted({(c.machine, c.backend, c.cell.threads) for c in plan.cells})


def test_the_grid_fans_out_over_machines(project):
    plan = on_slurm(project, ["icelake", "grace", "h200"])
    assert plan.machine == "icelake+grace+h200"
    assert list(plan.machines) == ["icelake", "grace", "h200"]
    assert plan.machines["icelake"].constraint == "icelake"
    assert plan.machines["icelake"].exclusive is True
    cells = placed(plan)
    assert [one for one in cells if one[1] == "numpy-openblas"] == [
        ("grace", "numpy-openblas", 1),
        ("grace", "numpy-openblas", 72),
        ("icelake", "numpy-openblas", 32),
        ("icelake", "numpy-openblas", 64),
    ]
    assert {backend for machine, backend, _ in cells if machine == "grace"} == {
        *("numpy-openblas", "torch-cpu"),
    }
    assert [one for one in cells if one[0] == "h200"] == [("h200", "torch-cuda", 1)]
    assert ("icelake", "cblas-mkl", 64) in cells


def test_one_of_the_machines(project):
    plan = on_slurm(project, "icelake,h200", machine="h200")
    assert {cell.machine for cell in plan.cells} == {"h200"}
    with pytest.raises(ConfigError, match=r"machine: found 'h20'.*Did you mean 'h200'"):
        on_slurm(project, "icelake,h200", machine="h20")


def test_an_unknown_machine(project):
    with pytest.raises(ConfigError, match=r"no machine 'icelak' .*Did you mean 'icelake'"):
        on_slurm(project, ["icelak"])


def test_words_for_threads_need_the_machines_cpus(project):
    with pytest.raises(ConfigError, match=r"'plain' in config/machines.yaml says no 'cpus'"):
        on_slurm(project, ["plain"])
    plan = on_slurm(project, ["plain"], grid=[block(threads=[1, 2])])
    assert {cell.cell.threads for cell in plan.cells} == {1, 2}


def test_a_machine_without_a_gpu_does_not_measure_cuda(project):
    grid = [block(backends=["torch-cuda", "torch-cpu"])]
    plan = on_slurm(project, ["icelake"], grid=grid)
    (skipped,) = plan.skipped
    assert skipped.reason == "machine icelake asks for no GPU (gres) in config/machines.yaml"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("a: {cpu: 4}", "a.cpu: there is no key 'cpu' here."),
        ("a: {cpus: 0}", "a.cpus: found 0. Allowed: a whole number, at least 1"),
        ("a: {gres: 'gpu; rm'}", "a.gres: found 'gpu; rm'. Allowed: a resource such as gpu:1"),
        ("a: {partition: $(id)}", "a.partition: found '$(id)'. Allowed: a partition's name"),
        ("a: {threads: [1, al]}", "a.threads[1]: found 'al'."),
        ("a: {backends: [torch-cup]}", "a.backends: there is no backend 'torch-cup'."),
        ("a: {platform: linux}", "a.platform: found 'linux'. Allowed: linux-x86_64"),
        ("[a, b]", "config/machines.yaml, line 1, the whole file: found ['a', 'b']"),
    ],
)
def test_mistakes_in_the_machines_file(project, entry, text):
    (project.root / "config/machines.yaml").write_text(entry + "\n")
    with pytest.raises(ConfigError) as caught:
        project.plan({"grid": [block()]})
    assert str(caught.value).startswith("config/machines.yaml, line 1")
    assert text in str(caught.value)


def test_inside_an_allocation_the_same_cells_are_planned_as_through_slurm(project):
    (project.root / "config/machines.yaml").write_text(
        "icelake: {cpus: 8, gres: 'gpu:a100:1', backends: [numpy-openblas], threads: [1, all]}"
    )
    grid = {"grid": [block(backends="auto", threads=4)]}
    through = project.plan(grid, machines=["icelake"])
    inside = project.plan(grid, machine="icelake")
    assert (
        names(inside) == names(through) == ["gemm.float32.64x64x64.t1", "gemm.float32.64x64x64.t8"]
    )
    assert {cell.machine for cell in inside.cells} == {"icelake"}
    assert inside.machines == {}
    promise = {"cpus": 8, "gpu": True, "platform": "linux-x86_64"}
    assert inside.promises == through.promises == {"icelake": promise}
    assert project.plan(grid).promises == {}


def test_without_a_machines_file(project):
    (project.root / "config/machines.yaml").unlink()
    assert project.plan({"grid": [block()]}).machines == {}


@pytest.mark.parametrize(
    ("cpus", "cores", "words", "counts"),
    [
        (8, 4, ("all",), [8]),
        (8, 4, ("physical", 2), [4, 2]),
        (8, None, ("physical",), [8]),
        (2, 4, ("physical",), [2]),
        (1, 1, ("doubling", "all"), [1]),
        (6, 6, ("doubling",), [1, 2, 4, 6]),
        (8, 8, ("doubling",), [1, 2, 4, 8]),
    ],
)
def test_thread_words(cpus, cores, words, counts):
    target = Target("t", "linux-x86_64", cuda=False, cpus=cpus, cores=cores)
    assert target.thread_counts(words) == counts
