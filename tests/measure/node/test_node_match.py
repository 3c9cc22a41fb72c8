"""What config/machines.yaml promises, and a node that does not keep it."""

from __future__ import annotations

import os
import platform
import sys

import pytest

from gemmgrid.measure.node.node_match import broken

GPU = {"gpus": [{"name": "NVIDIA H200"}]}
SYSTEM = "macos" if sys.platform == "darwin" else sys.platform


def promise(**changed):
    return {"cpus": None, "gpu": False, "platform": None} | changed


def test_who_promises_nothing_breaks_nothing():
    assert broken(None, {}) == []
    assert broken({}, {}) == []
    assert broken(promise(), {"gpus": None}) == []


@pytest.mark.parametrize(
    ("promised", "usable", "phrases"),
    [
        (64, 64, []),
        (64, 128, []),
        (64, 2, ["64 CPUs are promised, 2 may be used"]),
        (2, 1, ["2 CPUs are promised, 1 may be used"]),
        (None, 1, []),
    ],
)
def test_cpus(promised, usable, phrases):
    assert broken(promise(cpus=promised), {}, usable) == phrases


def test_cpus_that_may_be_used_are_counted_here():
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert broken(promise(cpus=usable), {}) == []
    assert broken(promise(cpus=usable + 1), {}) == [
        f"{usable + 1} CPUs are promised, {usable} may be used"
    ]


@pytest.mark.parametrize("facts", [{}, {"gpus": []}, {"gpus": None}])
def test_a_gpu_that_is_not_there(facts):
    assert broken(promise(gpu=True), facts) == ["a GPU is promised, and none is to be seen"]


def test_a_gpu():
    assert broken(promise(gpu=True), GPU) == []
    assert broken(promise(gpu=False), GPU) == []


def test_another_platform():
    here = f"{SYSTEM}-{platform.machine()}"
    assert broken(promise(platform=here), {}) == []
    asked = promise(platform=f"{SYSTEM}-x86_64")
    assert broken(asked, {}, architecture="x86_64") == []
    assert broken(asked, {}, architecture="aarch64") == [
        f"{SYSTEM}-x86_64 is promised, this is {SYSTEM}-aarch64"
    ]


def test_everything_at_once():
    asked = promise(cpus=64, gpu=True, platform=f"{SYSTEM}-x86_64")
    assert len(broken(asked, {}, 2, "aarch64")) == 3
