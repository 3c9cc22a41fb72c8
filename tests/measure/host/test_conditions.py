"""Conditions of recorded machines and of this one, and what two readings say."""

from __future__ import annotations

import hashlib
import json
import time

import pytest

from gemmgrid.measure.host import conditions, cpufreq
from gemmgrid.system import cpus
from tests.measure import machine_trees as trees


def reading(**changes):
    """A quiet moment on a machine of four CPUs, as `read` gives it."""
    quiet = {
        "throttle_events": 7,
        "power_source": "ac",
        "quota_throttled_s": 1.0,
        "shared_node": None,
        "gpu": None,
        "counters": {
            "monotonic_s": 100.0,
            "own_s": 10.0,
            "busy_s": 500.0,
            "steal_s": 3.0,
            "cpus": 4,
        },
    }
    counters = {**quiet["counters"], **changes.pop("counters", {})}
    return {**quiet, **changes, "counters": counters}


def ten_seconds_later(**changes):
    """The same machine after ten seconds, in which we used 20 CPU seconds."""
    counters = {"monotonic_s": 110.0, "own_s": 30.0, "busy_s": 520.2, "steal_s": 3.01}
    return reading(counters=counters | changes.pop("counters", {}), **changes)


def test_a_quiet_time_has_no_flags():
    assert conditions.judge(reading(), ten_seconds_later()) == []


@pytest.mark.parametrize(
    ("before", "after", "flag"),
    [
        ({}, {"throttle_events": 8}, "throttled"),
        ({}, {"gpu": {"throttle_reasons": ["gpu-idle", "sw-thermal"]}}, "throttled"),
        ({"gpu": {"throttle_reasons": ["hw-power-brake"]}}, {}, "throttled"),
        ({}, {"counters": {"busy_s": 525.0}}, "loaded"),
        ({}, {"gpu": {"other_processes": 1}}, "loaded"),
        ({}, {"counters": {"steal_s": 3.5}}, "steal"),
        ({"power_source": "battery"}, {}, "battery"),
        ({}, {"power_source": "battery"}, "battery"),
        ({}, {"quota_throttled_s": 1.5}, "quota"),
        ({"shared_node": True}, {"shared_node": True}, "shared-node"),
    ],
)
def test_each_disturbance_has_its_flag(before, after, flag):
    assert conditions.judge(reading(**before), ten_seconds_later(**after)) == [flag]


@pytest.mark.parametrize(
    "after",
    [
        {"gpu": {"throttle_reasons": ["gpu-idle", "application-clocks"], "other_processes": 0}},
        {"gpu": {"throttle_reasons": ["sw-power-cap"]}},  # a big product at full power
        {"counters": {"busy_s": 520.9}},  # under a tenth of a CPU
        {"counters": {"steal_s": 3.04}},  # four ticks: rounding
        {"quota_throttled_s": 1.05},
        {"throttle_events": None, "quota_throttled_s": None, "counters": {"busy_s": None}},
        {"counters": {"monotonic_s": 100.0}},
        {"counters": {"own_s": 60.0}},  # children that ended: more than the machine counted
    ],
)
def test_what_is_small_or_unknown_has_no_flag(after):
    assert conditions.judge(reading(), ten_seconds_later(**after)) == []


def test_a_large_machine_has_a_larger_background():
    many = {"cpus": 128}
    before = reading(counters=many)
    after = ten_seconds_later(counters=many | {"busy_s": 535.0})
    assert conditions.judge(before, after) == []


def test_judging_nothing_gives_nothing():
    assert conditions.judge({}, {}) == []


def test_a_recorded_server(tmp_path):
    found = conditions.read("cpu", root=trees.sapphire_rapids(tmp_path))
    assert found["load_1m"] == 1.25
    assert found["governor"] == "powersave"
    assert (found["turbo"], found["smt"], found["thp"]) == (True, True, "always")
    assert found["numa_balancing"] == 1
    assert found["temperature_c"] == 52.0  # the hotter package, and not the disk
    assert found["cpu_mhz"][:2] == [2900.0, 2900.001]
    assert len(found["cpu_mhz"]) == 16
    assert found["throttle_events"] == 16 * 4
    assert found["counters"]["steal_s"] == 0
    assert found["power_source"] is None
    assert found["unknown"]["power_source"]
    json.dumps(found)


def test_a_laptop_on_battery(tmp_path):
    root = trees.hybrid(tmp_path)
    found = conditions.read("cpu", root=root)
    assert found["power_source"] == "battery"
    assert found["cpu_mhz"] == [2000.0 + cpu for cpu in range(8)]  # aperfmperf: true clocks
    trees.write(root, "sys/class/power_supply/AC/online", 1)
    assert cpufreq.power_source(root) == "ac"


def test_a_nominal_clock_is_not_taken_for_the_present_one(tmp_path):
    trees.write(tmp_path, "proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2596.146\nflags\t: fpu tsc")
    clocks, reason = cpufreq.clock_mhz(tmp_path, [0])
    assert clocks is None
    assert "cannot see the clock" in reason


def test_amd_boost_and_sensor(tmp_path):
    root = trees.rome(tmp_path)
    assert cpufreq.turbo(root) is False
    assert cpufreq.temperature_c(root) == 61.25
    assert cpufreq.settings(root, [0])["governor"] == "performance"
    assert cpufreq.throttle_events(root, [0]) is None


def test_few_cpus_of_many_are_asked():
    assert cpufreq.some(list(range(4))) == [0, 1, 2, 3]
    spread = cpufreq.some(list(range(256)))
    assert len(spread) == cpufreq.LOOKED_AT
    assert (spread[0], spread[-1]) == (0, 240)


def test_everything_unknown_has_a_reason(tmp_path):
    found = conditions.read("cpu", root=tmp_path)
    for key, value in found.items():
        if value is None and key != "gpu":
            assert key in found["unknown"] or key == "allowed_cpus", key


def test_other_devices_say_why_there_is_no_gpu():
    found = conditions.read("cuda")
    assert (found["gpu"] is None) == ("gpu" in found["unknown"])


def test_only_work_of_others_counts():
    """Our own burning is not load: the machine's time less ours, over the real /proc/stat."""
    before = conditions.read("cpu")
    if before["counters"]["busy_s"] is None:
        pytest.skip("hardware: an Apple system has no /proc/stat")
    block = bytes(1 << 20)
    end = time.process_time() + 0.5
    while time.process_time() < end:
        hashlib.sha256(block)
    after = conditions.read("cpu", before)
    own = after["counters"]["own_s"] - before["counters"]["own_s"]
    busy = after["counters"]["busy_s"] - before["counters"]["busy_s"]
    assert own >= 0.45
    assert busy >= own - 0.1  # the machine's counter holds ours, but for rounding
    seconds = after["counters"]["monotonic_s"] - before["counters"]["monotonic_s"]
    assert after["others_cpus"] == pytest.approx(max(0.0, busy - own) / seconds, abs=0.06 / seconds)
    assert 0 <= after["steal"] <= 1


def test_a_slurm_job_with_a_part_of_the_node(tmp_path, monkeypatch):
    root = trees.sapphire_rapids(tmp_path)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert conditions.read("cpu", root=root)["shared_node"] is None
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert conditions.read("cpu", root=root)["shared_node"] is False
    monkeypatch.setattr(cpus, "allowed", lambda root: [0, 1, 2, 3])
    assert conditions.read("cpu", root=root)["shared_node"] is True
