"""Adapters that lie are found out: each ends with the status or the flag that names its lie."""

from __future__ import annotations

import os

import pytest

from gemmgrid.measure.supervise.progress import outcome_line
from tests.liars.measuring import measured

FATAL = "FATAL ERROR: cannot load libkernels.so"
PLAIN = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def run(liar: str, name: str = "gemm.float32.256x256x256.t1", **settings) -> dict:
    return measured(f"tests.liars.adapters.{liar}", name, **settings)


def verdict(run: dict, when: str) -> dict:
    return run["invocations"][0]["verify"][when]


@pytest.mark.parametrize(
    ("liar", "problem"),
    [
        ("does_nothing", "nan"),  # the poisoned result stayed as it was
        ("remembers", "error"),
        ("caches", "error"),
        ("zeros", "zeros"),
        ("nan_corner", "nan"),
        ("ignores_b", "error"),
    ],
)
def test_wrong_results_publish_no_rate(liar, problem):
    found = run(liar)
    assert found["status"] == "wrong", found["reason"]
    verdicts = [one for one in found["invocations"][0]["verify"].values() if one]
    assert verdicts[-1]["problem"] == problem
    assert not verdicts[-1]["ok"]


def test_a_missing_fence_is_found():
    found = run("no_fence", "gemm.float32.1024x1024x1024.t1")
    assert found["status"] in ("wrong", "implausible"), found["reason"]


def test_a_lazy_graph_of_which_only_the_last_product_runs_is_implausible():
    found = run("lazy", "gemm.float32.1024x1024x1024.t1")
    assert found["status"] == "implausible"
    assert "twice the work" in found["reason"]


def test_half_precision_is_named():
    found = run("half")
    assert found["status"] == "ok", found["reason"]
    assert "reduced-precision" in found["flags"]
    assert found["invocations"][0]["effective_precision"] == "float16"


def test_one_thread_instead_of_two_is_flagged():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("hardware: needs two CPUs")
    found = run("one_thread", "gemm.float32.1024x1024x1024.t2", sample_s=0.3)
    assert found["status"] == "ok", found["reason"]
    assert "wrong-threads" in found["flags"]
    threads = found["invocations"][0]["threads"]
    assert (threads["asked"], threads["library"], threads["seen"]) == (2, 2, 1)


def test_a_hang_ends_with_its_budget():
    found = run("hangs", budget_s=1)
    assert found["status"] == "timeout"
    assert found["failure"]["stage"] == "first-call"


def test_a_segmentation_fault_is_recorded():
    found = run("segfaults")
    assert found["status"] == "crashed"
    assert found["failure"]["signal"] == "SIGSEGV"
    assert found["failure"]["stage"] == "first-call"


def test_an_exception_is_recorded_with_the_end_of_its_traceback():
    found = run("raises")
    assert found["status"] == "crashed"
    assert found["failure"]["exit_code"] == 1
    assert "ValueError" in found["reason"]
    assert "Traceback" in found["failure"]["stderr_tail"]


def test_a_leak_ends_when_it_outgrows_the_memory():
    found = run("leaks", memory_fraction=0.05)
    assert found["status"] == "oom", found["reason"]


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C", **PLAIN}])
def test_output_is_kept_apart_and_flagged(monkeypatch, locale):
    """In a locale that lacks its characters too."""
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    found = run("prints")
    assert found["status"] == "ok", found["reason"]
    assert "stdout-noise" in found["flags"]
    tail = found["invocations"][0]["stdout_tail"]
    assert "library banner" in tail
    assert "past Python's own buffers" in tail


def test_a_changed_affinity_is_flagged():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("hardware: needs two CPUs")
    found = run("moves")
    assert found["status"] == "ok", found["reason"]
    assert "affinity-changed" in found["flags"]


def test_inputs_that_were_changed_are_wrong():
    """The result fits what the liar made of the operands: their seed tells."""
    found = run("eases")
    assert found["status"] == "wrong", found["reason"]
    assert found["reason"] == "A is not what its seed gives: an input was changed"
    assert verdict(found, "after")["ok"]
    assert run("prints")["invocations"][0]["operands"]["unchanged"]


def test_last_words_on_either_stream_are_the_reason():
    found = run("gives_up")
    assert found["status"] == "crashed"
    assert found["reason"].endswith("exit code 2 (stage: prepare): " + FATAL)
    assert found["failure"]["stdout_tail"] == f"a banner\n{FATAL}"
    assert FATAL in outcome_line(found)


def test_warnings_of_a_good_run_are_kept_once():
    found = run("warns", invocations=2)
    assert found["status"] == "ok", found["reason"]
    assert "warned" in found["flags"]
    first, second = found["invocations"]
    assert [line for line in first["warnings"] if "overflow encountered" in line]
    assert len([line for line in first["warnings"] if "no huge pages" in line]) == 1
    assert "warnings" not in second


def test_a_hang_while_verifying_afterwards_keeps_the_samples():
    found = run("stalls", budget_s=1)
    assert found["status"] == "timeout"
    assert found["failure"]["stage"] == "verify-after"
    samples = len(found["invocations"][0]["samples"]["elapsed_ns"])
    assert found["reason"].endswith(f"what it timed is kept, unverified: {samples} samples")
