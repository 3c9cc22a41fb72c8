"""machine.json as named facts, from any machine and from nobody's."""

from __future__ import annotations

from typing import Any

import pytest

from gemmgrid.report.read.hardware import bytes_text, facts, peak_gflops

DOCUMENT: dict[str, Any] = {
    "cpu": {
        "model": "Invented",
        "cores": 8,
        "performance_cores": 6,
        "efficiency_cores": 2,
        "threads_per_core": 2,
        "caches": [{"level": 2, "type": "unified", "size_bytes": 1 << 20, "count": 8}],
        "isa": ["avx2", "fma"],
        "max_mhz": None,
        "base_mhz": 2600.0,
    },
    "memory_bytes": 25276502016,
    "gpus": [
        {"name": "H200", "memory_bytes": 150754820096, "driver": "580.1", "cuda": "13.0"},
        {"name": "H200", "memory_bytes": 150754820096, "driver": "580.1", "cuda": "13.0"},
    ],
    "unknown": {"cpu.max_mhz": "no cpufreq here"},
}


def test_facts_in_words() -> None:
    found = facts(DOCUMENT)
    assert found["cores"].text == "8 (6 performance, 2 efficiency)"
    assert found["SMT"].text == "2 threads a core"
    assert found["caches"].text == "L2 8 × 1 MiB"
    assert found["memory"].text == "23.5 GiB"
    assert found["nominal clock"].text == "2.60 GHz"
    assert found["GPU"].text == "H200, 140 GiB; H200, 140 GiB"
    assert found["GPU driver"].text == "580.1, CUDA 13.0"


def test_unknown_has_its_reason() -> None:
    assert facts(DOCUMENT)["highest clock"].text is None
    assert facts(DOCUMENT)["highest clock"].reason == "no cpufreq here"


@pytest.mark.parametrize(
    "document", [None, {}, {"cpu": "fast"}, {"cpu": {"caches": {}}, "gpus": 1}]
)
def test_nothing_known_is_nothing_said(document: Any) -> None:
    assert all(fact.text is None for fact in facts(document).values())


def test_peak_of_threads_is_bounded_by_cores() -> None:
    machine = {"cpu": {"cores": 4}, "peaks": {"cpu": {"float32": {"flops_per_core": 1e11}}}}
    assert peak_gflops(machine, "cpu", "float32", 2, None) == 200
    assert peak_gflops(machine, "cpu", "float32", 8, None) == 400
    assert peak_gflops(machine, "cpu", "float64", 2, None) is None
    assert peak_gflops(None, "cpu", "float32", 2, None) is None


@pytest.mark.parametrize(
    ("count", "text"), [(512, "512 B"), (32768, "32 KiB"), (1 << 45, "32 TiB")]
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text
