"""From invocations to status, reason and flags."""

from __future__ import annotations

import random

import pytest

from gemmgrid.measure.supervise import assemble
from gemmgrid.records.cell import Cell
from gemmgrid.records.context import digest
from gemmgrid.records.identity import gpu_facts
from gemmgrid.records.run import FLAGS, STATUSES

CELL = Cell("gemm", "float32", (512, 512, 512), 1)
NO_FACTS: dict = {"cpu": {}, "gpus": []}


def invocation(index=0, elapsed=None, status="ok", reason=None, round_number=1, **more):
    return {
        "index": index,
        "round": round_number,
        "status": status,
        "reason": reason,
        "flags": [],
        "inner": 2,
        "samples": {"elapsed_ns": elapsed or [4_000_000] * 30},
        "effective_precision": "float32",
        "expression": "np.matmul(A, B, out=C)",
        "identity": {"library": {"name": "OpenBLAS"}},
    } | more


def run(*invocations, **more):
    return {
        "cell": CELL.to_json(),
        "device": "cpu",
        "status": "lost",
        "reason": None,
        "flags": [],
        "failure": None,
        "evidence": None,
        "invocations": list(invocations),
    } | more


def concluded(*invocations, **more):
    document = run(*invocations, **more)
    assemble.conclude(document, NO_FACTS)
    assert set(document["flags"]) <= set(FLAGS)
    assert document["status"] in STATUSES
    return document


def test_five_good_processes_are_ok():
    found = concluded(*(invocation(index) for index in range(5)))
    assert (found["status"], found["reason"]) == ("ok", None)
    assert found["flags"] == ["one-round"]
    assert found["library"] == {"name": "OpenBLAS"}
    assert assemble.rate_of(found) == pytest.approx(2 * 512**3 / 0.002)


def test_the_worst_process_decides():
    bad = invocation(1, status="wrong", reason="zeros", failure={"stage": "verify"})
    found = concluded(invocation(0), bad, invocation(2, status="timeout", reason="slow"))
    assert (found["status"], found["reason"]) == ("wrong", "zeros")
    assert found["failure"] == {"stage": "verify"}


def test_every_status_an_invocation_may_have_is_ranked():
    for status in set(STATUSES) - {"excluded", "infeasible"}:
        assert status in assemble.WORST_FIRST


def test_few_processes_are_flagged_and_rounds_are_not():
    assert "few-invocations" in concluded(invocation(0))["flags"]
    rounds = [invocation(index, round_number=index + 1) for index in range(5)]
    assert concluded(*rounds)["flags"] == []


def test_noise_between_processes_is_flagged():
    loud = [invocation(index, [4_000_000 + 900_000 * index] * 30) for index in range(5)]
    assert "noisy" in concluded(*loud)["flags"]


def test_two_groups_of_samples_are_bimodal_and_a_tail_is_not():
    chance = random.Random(1)
    two = [chance.choice([4_000_000, 6_000_000]) + chance.randrange(20_000) for _ in range(100)]
    tail = [int(4_000_000 * (1 + chance.expovariate(10))) for _ in range(100)]
    assert "bimodal" in concluded(*(invocation(index, two) for index in range(5)))["flags"]
    assert "bimodal" not in concluded(*(invocation(index, tail) for index in range(5)))["flags"]


def test_a_rise_over_the_samples_is_drift():
    rising = [4_000_000 + 20_000 * index for index in range(60)]
    assert "drift" in concluded(*(invocation(index, rising) for index in range(5)))["flags"]


def test_evidence_adds_its_doubts():
    evidence = {"no_blas": {"slots_watched": 3}, "inconsistent": "kernel without routine"}
    flags = concluded(*(invocation(index) for index in range(5)), evidence=evidence)["flags"]
    assert {"no-blas", "inconsistent-evidence"} <= set(flags)


def test_what_no_device_can_do_is_implausible(monkeypatch):
    limits = {"flops": 1e11, "limit": 1.2e11, "source": "a test", "reason": None}
    monkeypatch.setattr(assemble, "peak", lambda *arguments: limits)
    fast = concluded(*(invocation(index, [400_000] * 30) for index in range(5)))
    assert fast["status"] == "implausible"
    assert "a test" in fast["reason"]
    slow = concluded(*(invocation(index, [400_000_000] * 30) for index in range(5)))
    assert slow["status"] == "ok"
    assert "slow-path" in slow["flags"]


def test_what_the_probed_cpus_cannot_do_is_implausible():
    """512 cubed in 2 ms is 134 GFLOP/s."""
    for rate, status in ((1.2e11, "ok"), (1e11, "implausible")):
        loop = {"all": [rate], "slowest": [rate]}
        half = {"trips": [], "float32": loop, "float64": loop}
        probe = {"before": half, "after": half, "memory": None}
        found = concluded(*(invocation(index, probe=probe) for index in range(5)))
        assert found["status"] == status
    assert "pure arithmetic" in found["reason"]


def test_a_run_is_judged_by_the_gpu_it_used():
    """4 ms a call of 8192³ is 275 TFLOP/s: more than an L4 can do, and less than an H200."""
    small, large = {"name": "NVIDIA L4"}, {"name": "NVIDIA H200"}
    cell = Cell("gemm", "float32", (8192, 8192, 8192), 1)
    for used, status in ((large, "ok"), (small, "implausible")):
        document = run(*(invocation(index, [8_000_000] * 30) for index in range(5)))
        kind = digest(gpu_facts(used))
        document |= {"cell": cell.to_json(), "device": "cuda", "gpu": {"id": kind}}
        assemble.conclude(document, {"cpu": {}, "gpus": [small, large]})
        assert document["status"] == status
