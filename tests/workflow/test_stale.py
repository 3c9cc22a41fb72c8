"""Real changes of a real context: stale names just the right cells, refresh runs only those."""

from __future__ import annotations

import copy
import json
import os
import platform
import re
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.workflow.project import MACHINE, TINY, Project

TWO = {
    "adapter": "numpy",
    "blas": "openblas",
    "platforms": ["linux-x86_64", "linux-aarch64", "macos-arm64"],
    "dtypes": ["float32"],
}
SIZES = (48, 256)
OTHER_CORE = {"x86_64": "Prescott", "aarch64": "ARMV8"}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Two backends with an environment each, measured once; every test takes it further."""
    project = Project(tmp_path_factory.mktemp("stale"))
    project.add_backend("numpy-two", **TWO)
    for kind in ("txt", "yaml"):
        text = (project.folder / f"envs/numpy-openblas.{kind}").read_text()
        (project.folder / f"envs/numpy-two.{kind}").write_text(text)
    study = copy.deepcopy(TINY)
    study["grid"][0] |= {"backends": ["numpy-openblas", "numpy-two"], "shapes": list(SIZES)}
    study["sampling"] |= {"invocations": 5, "rounds": 5}
    project.configure(study)
    project.snakemake()
    assert set(project.counts().values()) == {1}
    return project


def names(backend: str) -> set[str]:
    return {f"{backend}/gemm.float32.{n}x{n}x{n}.t1" for n in SIZES}


def jobs(project: Project, *arguments: str) -> dict[str, int]:
    """The jobs of a run by rule, counted from Snakemake's own log."""
    folder = project.folder / ".snakemake/log"
    before = set(folder.iterdir())
    project.snakemake(*arguments, "--quiet", "host")
    (log,) = set(folder.iterdir()) - before
    text = log.read_text()
    found = re.findall(r"^(?:local)?rule ([\w-]+):", text, re.M)
    return {rule: found.count(rule) for rule in found}


def listed(output: str) -> set[str]:
    return set(re.findall(r"^    (\S+/gemm\S+)$", output, re.M))


def test_nothing_is_stale_after_measuring(grid: Project) -> None:
    output = grid.snakemake("stale")
    assert "nothing is stale: 4 cells" in output
    assert listed(output) == set()


def test_a_refresh_with_nothing_stale_runs_no_job(grid: Project) -> None:
    assert jobs(grid, "refresh") == {}
    assert set(grid.counts().values()) == {1}


def test_it_builds_no_environment(grid: Project, tmp_path: Path) -> None:
    """Also where none is there: then packages are not compared, and nothing is claimed."""
    envs = grid.folder / ".envs"
    envs.rename(tmp_path / "away")
    try:
        output = grid.snakemake("stale")
    finally:
        made = envs.exists()
        (tmp_path / "away").rename(envs)
    assert not made
    assert "nothing is stale" in output and "not built here" in output


def test_another_core_for_one_backend(grid: Project) -> None:
    """OPENBLAS_CORETYPE through the registry: one backend's cells, and the right direction."""
    core = OTHER_CORE.get(platform.machine())
    if core is None:
        pytest.skip("hardware: OpenBLAS chooses no core by name on this architecture")
    registry = grid.folder / "config/backends.yaml"
    original = registry.read_text()
    document = yaml.safe_load(original)
    document["numpy-two"]["variables"] = {"OPENBLAS_CORETYPE": core}
    registry.write_text(yaml.safe_dump(document))

    output = grid.snakemake("stale")
    assert listed(output) == names("numpy-two")
    assert f"variable OPENBLAS_CORETYPE: (none) → {core}" in output
    assert "refresh --configfile" in output
    assert set(grid.counts().values()) == {1}

    found = jobs(grid, "refresh")
    assert (found["measure"], found["environment_numpy-two"]) == (5, 1)
    assert "environment_numpy-openblas" not in found
    counts = grid.counts()
    assert {name for name, count in counts.items() if count == 2} == names("numpy-two")
    assert {name for name, count in counts.items() if count == 1} == names("numpy-openblas")
    assert jobs(grid, "refresh") == {}
    assert "nothing is stale" in grid.snakemake("stale")
    assert jobs(grid).get("measure_numpy-two") is None

    cells = grid.cells()
    for name in names("numpy-two"):
        before, after = cells[name]
        assert before["context"]["host_hash"] == after["context"]["host_hash"]
        assert before["context"]["backend_hash"] != after["context"]["backend_hash"]
        assert after["context"]["backend"]["variables"]["OPENBLAS_CORETYPE"] == core

    comparisons = _comparisons(grid)
    changed = comparisons[comparisons["kind"] == "before-after"]
    assert set(changed["backend"] + "/" + changed["cell"]) == names("numpy-two")
    assert changed["changes"].str.contains("OPENBLAS_CORETYPE").all()
    if platform.machine() == "x86_64":
        # SSE3 kernels in place of those for this CPU: many times slower at this size.
        (large,) = changed[changed["n"] == max(SIZES)].to_dict("records")
        assert large["ratio"] < 1
        assert large["verdict"] != "faster"
    printed = grid.snakemake("compare")
    assert f"variable OPENBLAS_CORETYPE: (none) → {core}" in printed


def test_a_changed_package_in_one_environment(grid: Project) -> None:
    """The lock names another version: stale at once; refresh builds it first, and only it."""
    lock = grid.folder / "envs/numpy-openblas.txt"
    original = lock.read_text()
    counts = grid.counts()
    lock.write_text(re.sub(r"^numpy==2\.4\.\d+", "numpy==2.4.5", original, flags=re.M))
    assert lock.read_text() != original
    output = grid.snakemake("stale")
    assert listed(output) == names("numpy-openblas")
    assert "environment's lock" in output
    assert jobs(grid, "refresh")["measure"] == 5
    for name in names("numpy-openblas"):
        before, after = grid.cells()[name][-2:]
        packages = [run["context"]["backend"]["packages"]["numpy"] for run in (before, after)]
        assert packages[1].startswith("2.4.5") and not packages[0].startswith("2.4.5")
        assert after["invocations"][0]["identity"]["packages"]["numpy"] == "2.4.5"
    for name in names("numpy-two"):
        assert grid.counts()[name] == counts[name]
    assert jobs(grid, "refresh") == {}


def test_a_package_changed_behind_our_back(grid: Project) -> None:
    """What is installed counts, not what was once written down about it."""
    (info,) = (grid.folder / ".envs/numpy-two").glob("lib/python*/site-packages/numpy-*.dist-info")
    moved = info.with_name("numpy-9.9.9.dist-info")
    info.rename(moved)
    try:
        output = grid.snakemake("stale")
    finally:
        moved.rename(info)
    assert listed(output) == names("numpy-two")
    assert re.search(r"package numpy: 2\.4\.\S+ .* → 9\.9\.9", output)


def test_a_replaced_library(grid: Project) -> None:
    """Another build of the BLAS under the same name."""
    run = grid.cells()[min(names("numpy-two"))][-1]
    file = grid.folder / ".envs/numpy-two" / run["context"]["backend"]["library"]["file"]
    whole = file.read_bytes()
    file.write_bytes(whole + b"\0")
    try:
        output = grid.snakemake("stale")
    finally:
        file.write_bytes(whole)
    assert listed(output) == names("numpy-two")
    assert "BLAS file's content" in output


def test_a_recorded_kernel(grid: Project) -> None:
    """A run from under another kernel, made from a real one: a host's change, for every backend."""
    name = f"gemm.float32.{SIZES[0]}x{SIZES[0]}x{SIZES[0]}.t1"
    path = grid.folder / f"results/{MACHINE}/numpy-openblas/{name}.jsonl"
    original = path.read_bytes()
    run = json.loads(original.splitlines()[-1])
    run["context"]["host"]["kernel"] = "Linux 5.10.0"
    path.write_bytes(original + json.dumps(run).encode() + b"\n")
    try:
        output = grid.snakemake("stale")
        assert listed(output) == {f"numpy-openblas/{name}"}
        assert "kernel: Linux 5.10.0 → Linux" in output
        dry = grid.snakemake("refresh", "-n", "--quiet", "host")
        assert re.search(r"^measure +5$", dry, re.M)
        assert "environment_numpy-openblas" in dry and "environment_numpy-two" not in dry
    finally:
        path.write_bytes(original)


def test_select_and_only_choose(grid: Project) -> None:
    smallest = f"select=backend=numpy-two n={SIZES[0]}"
    counts = grid.counts()
    assert jobs(grid, "refresh", "--config", smallest, "only=all")["measure"] == 5
    after = grid.counts()
    changed = {name for name in after if after[name] != counts[name]}
    assert changed == {f"numpy-two/gemm.float32.{SIZES[0]}x{SIZES[0]}x{SIZES[0]}.t1"}

    missing = grid.folder / f"results/{MACHINE}/{min(names('numpy-two'))}.jsonl"
    missing.unlink()
    assert jobs(grid, "refresh", "--config", "only=missing")["measure"] == 5
    assert missing.exists()

    assert jobs(grid, "refresh", "--config", "older_than=1h") == {}
    wrong = grid.snakemake("refresh", "--config", "only=stail", code=1)
    assert "Did you mean 'stale'" in wrong


def test_failed_cells_are_tried_again_and_hide_nothing(grid: Project) -> None:
    """A broken environment: the failure is told, the last good value stays; a retry mends it."""
    name = min(names("numpy-two"))
    path = grid.folder / f"results/{MACHINE}/{name}.jsonl"
    python = grid.folder / ".envs/numpy-two/lib"
    (numpy,) = python.glob("python*/site-packages/numpy")
    numpy.rename(numpy.with_name("away"))
    try:
        grid.snakemake("-f", str(path.relative_to(grid.folder)), code=None)
    finally:
        numpy.with_name("away").rename(numpy)
    table = grid.table()
    (row,) = table[table["backend"] + "/" + table["cell"] == name].to_dict("records")
    assert row["status"] == "env-failed" and "numpy" in row["reason"]
    assert row["last_good_gflops"] > 0 and row["last_good_at"] < row["measured_at"]
    assert pd.isna(row["gflops"]) and "last good GFLOP/s" in grid.page()
    assert jobs(grid, "refresh", "--config", "only=failed")["measure"] == 5
    assert grid.cells()[name][-1]["status"] == "ok"
    assert jobs(grid, "refresh", "--config", "only=failed") == {}


def test_the_gate(grid: Project) -> None:
    grid.snakemake("refresh", "--config", "only=all", "rounds=5")
    missing = grid.snakemake("check", code=1)
    assert "references.yaml is missing" in missing
    grid.snakemake("references", "--config", "lower=-1", "upper=1000")
    file = grid.folder / "config/references.yaml"
    entries = yaml.safe_load(file.read_text())
    assert len(entries) == 4 and {entry["upper"] for entry in entries} == {1000}
    assert "4 kept" in grid.snakemake("check")
    entries[0] |= {"value": 10 * entries[0]["value"], "lower": -0.5}
    entries[1] = {"machine": "*", "select": "backend=numpy-two n>=1", "value": 1e-6, "upper": None}
    file.write_text(yaml.safe_dump(entries))
    output = grid.snakemake("check", code=1)
    assert re.search(rf"fail  {MACHINE}/{re.escape(entries[0]['cell'])}\n", output)
    assert "5 references: 4 kept, 0 in doubt, 1 failed" in output
    assert "RuleException" not in output
    entries[0]["cell"] = "numpy-openblas/gemm.float33.1x1x1.t1"
    file.write_text(yaml.safe_dump(entries))
    assert "references.yaml, line" in grid.snakemake("check", code=1)


def test_machines_behind_slurm_are_asked_by_a_job(grid: Project) -> None:
    """`stale` makes one job for each machine (here run by the local executor); refresh reads it."""
    machines = {MACHINE: {"partition": "all", "platform": _platform(), "cpus": 1}}
    (grid.folder / "config/machines.yaml").write_text(yaml.safe_dump(machines))
    remote = ("--config", f"machines={MACHINE}")
    answer = grid.folder / f"results/.plan/now/{MACHINE}.json"
    answer.unlink(missing_ok=True)
    early = grid.snakemake("refresh", *remote, code=1)
    assert "profiles/slurm stale" in early
    assert jobs(grid, "stale", *remote) == {"plan": 1, "look": 1, "stale": 1}
    assert json.loads(answer.read_text())["machine"] == MACHINE
    assert jobs(grid, "refresh", *remote) == {}
    hour = time.time() - 4000
    os.utime(answer, (hour, hour))
    assert "more than an hour old" in grid.snakemake("refresh", *remote, code=1)


def _platform() -> str:
    from gemmgrid.plan.hardware import platform_name

    return platform_name()


def _comparisons(project: Project):
    import pandas

    return pandas.read_csv(project.folder / "results/tables/comparisons.csv")
