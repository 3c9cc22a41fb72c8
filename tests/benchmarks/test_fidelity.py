"""benchmarks/fidelity.py: its arithmetic, its C program, and that it runs; never its timings."""

from __future__ import annotations

import os
import re
from pathlib import Path
from statistics import median

import pytest
from fidelity import Comparison, compare, grid, turns, within
from support import environments, measuring
from support.rivals import CProgram, rival

from gemmgrid.records.cell import Cell

LINE = re.compile(r"^numpy-openblas .* n=64 .* C .* µs  gemmgrid .* µs .* ratio=\d+\.\d{3}$", re.M)


class Fixed:
    """A test double: a rival that always says the same."""

    name = "fixed"

    def __init__(self, seconds: float) -> None:
        self.answer = seconds

    def seconds(self, cell: Cell) -> float:
        return self.answer


class Broken(Fixed):
    """A test double: a rival that fails."""

    def seconds(self, cell: Cell) -> float:
        raise RuntimeError("broken")


def comparison(n: int = 512, ours: list[float] | None = None, theirs: float = 2e-3) -> Comparison:
    cell = Cell("gemm", "float32", (n, n, n), 1)
    one = Comparison(cell, "numpy-openblas", Fixed(theirs))
    one.ours = ours or []
    one.theirs = [theirs] * len(one.ours)
    return one


def test_the_ratio_is_of_medians_and_ends_the_line():
    one = comparison(ours=[2.02e-3, 2.04e-3, 9e-3])
    one.theirs = [1.9e-3, 2.0e-3, 2.1e-3]
    assert one.ratio == pytest.approx(1.02)
    assert one.extra_ns == pytest.approx(40_000)
    assert one.line.endswith(" ratio=1.020")


def test_the_interval_is_of_our_time_over_theirs():
    one = comparison(ours=[3e-3, 3.1e-3, 2.9e-3])
    one.theirs = [1e-3, 1.01e-3, 0.99e-3]
    assert one.interval is not None
    assert one.interval.low < 3 < one.interval.high
    assert one.interval.value == pytest.approx(3, rel=0.01)


def test_a_cell_without_one_side_says_why():
    one = comparison()
    one.problems = ["gemmgrid: implausible: twice the work took 1.1 times as long"]
    assert one.ratio is None
    assert one.line.endswith("took 1.1 times as long")
    assert "ratio=" not in one.line


def test_only_large_products_are_promised():
    small = comparison(n=256, ours=[4e-3])
    good, low, high = (comparison(ours=[t]) for t in (2.04e-3, 1.95e-3, 2.05e-3))
    missing = comparison(n=1024)
    large, outside = within([small, good, low, high, missing])
    assert large == [good, low, high, missing]
    assert outside == [low, high, missing]


def test_every_comparison_has_its_turn_in_every_round_and_the_first_side_alternates():
    comparisons = [comparison(n=n) for n in (1, 2, 3, 4, 5)]
    taken = list(turns(comparisons, 4, seed=1))
    rounds = [taken[start : start + 5] for start in range(0, 20, 5)]
    for one in rounds:
        assert sorted(c.cell.n for c, _ in one) == [1, 2, 3, 4, 5]
    assert len({tuple(c.cell.n for c, _ in one) for one in rounds}) > 1
    for wanted in comparisons:
        firsts = [first for one, first in taken if one is wanted]
        assert firsts in ([True, False] * 2, [False, True] * 2)


@pytest.mark.parametrize("first", [True, False])
def test_a_failing_side_leaves_the_other_and_its_problem(first):
    one = Comparison(Cell("gemm", "float32", (8, 8, 8), 1), "numpy-openblas", Broken(1))
    compare(one, lambda given: given.ours.append(1.0), first)
    assert (one.ours, one.theirs, one.problems) == ([1.0], [], ["broken"])


def test_the_grid_has_every_combination():
    names = [cell.name for cell in grid((8, 16), ("float32", "float64"), (1, 2))]
    assert len(set(names)) == 8
    assert "gemm.float64.16x16x16.t2" in names


@pytest.fixture(scope="module")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> CProgram:
    settings = measuring.settings(sample_s=0.03, warmup_s=0.01)
    place = environments.ready("numpy-openblas")
    return CProgram(place, settings, tmp_path_factory.mktemp("c"))


def ask(program: CProgram, *policy: object, n: int = 100, dtype: str = "float64", threads: int = 1):
    prefix, suffix = program.library["affixes"]
    command = [str(program.program), program.library["file"], prefix, suffix, dtype, str(n)]
    return environments.ask([*command, *map(str, policy)], environments.variables(threads))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_c_program_multiplies_on_numpys_own_library(c_program, dtype, threads):
    found = ask(c_program, 0.01, 0.001, 0.02, 3, 2000, dtype=dtype, threads=threads)
    assert found["threads"] == threads
    assert 0 <= found["check"] < {"float32": 1e-6, "float64": 1e-14}[dtype]
    assert all(int(address, 16) % 4096 == 0 for address in found["addresses"])
    assert len(set(found["addresses"])) == 3
    assert Path(c_program.library["file"]).is_relative_to(environments.VENVS / "numpy-openblas")


def test_the_c_program_keeps_the_stopping_rule(c_program):
    found = ask(c_program, 0.02, 0.002, 0.05, 3, 2000)
    assert sum(found["elapsed_ns"]) >= 0.05e9
    assert sum(found["elapsed_ns"][:-1]) < 0.05e9 or len(found["elapsed_ns"]) == 3
    assert found["warmup_s"] >= 0.02
    assert found["inner"] > 1
    assert len(ask(c_program, 0.001, 0.001, 1e-6, 7, 2000)["elapsed_ns"]) == 7
    assert len(ask(c_program, 0.001, 0.001, 10, 3, 5)["elapsed_ns"]) == 5


def test_the_c_program_gives_the_seconds_of_one_call(c_program):
    cell = Cell("gemm", "float32", (64, 64, 64), 1)
    seconds = c_program.seconds(cell)
    found = ask(c_program, 0.01, 0.001, 0.03, 3, 2000, n=64, dtype="float32")
    direct = median(found["elapsed_ns"]) / found["inner"] / 1e9
    assert direct / 100 < seconds < direct * 100  # the same unit, whatever else runs here


def test_a_library_without_the_function_is_named(c_program):
    with pytest.raises(RuntimeError, match="the library has no wrong_cblas_dgemm64_"):
        command = [str(c_program.program), c_program.library["file"], "wrong_", "64_", "float64"]
        environments.ask([*command, "8", "0", "0", "0", "1", "1"], environments.variables(1))


def test_a_compiler_that_fails_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "false")
    with pytest.raises(RuntimeError, match="false -O2"):
        rival("C", environments.ready("numpy-openblas"), measuring.settings(), tmp_path)


def test_the_program_prints_a_line_for_each_cell(program):
    quick = ("--quick", "--processes", 2, "--sample-s", 0.02)
    done = program("fidelity.py", *quick, "--rivals", "C", "--sizes", 64, 512)
    assert done.returncode == 0, done.stdout + done.stderr
    assert LINE.search(done.stdout), done.stdout
    assert re.search(r"n >= 512: [01] of 1 ratios to C lie within 0.98–1.02", done.stdout)
    assert re.search(r"Python's own cost a call, gemm.float32.8x8x8.t1: \+\d+ ns", done.stdout)


def test_the_program_compares_with_torch_and_pyperf(program):
    quick = ("--quick", "--processes", 2, "--sample-s", 0.02)
    done = program("fidelity.py", *quick, "--rivals", "torch", "pyperf")
    assert done.returncode == 0, done.stdout + done.stderr
    for backend, name in (("torch-cpu", "torch.utils.benchmark"), ("numpy-openblas", "pyperf")):
        assert re.search(rf"^{backend} .* {name} .* ratio=\d+\.\d{{3}}$", done.stdout, re.M)


def test_without_a_compiler_the_program_says_so_and_fails(program):
    done = program("fidelity.py", "--quick", "--rivals", "C", env={**os.environ, "CC": "false"})
    assert done.returncode == 1
    assert "not compared: C: false -O2" in done.stdout
