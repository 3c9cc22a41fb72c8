"""The advice: each finding where it belongs, and a text that reads well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gemmgrid.measure import machine
from gemmgrid.measure.doctor import command as doctor
from gemmgrid.measure.doctor.advice import CHECKS, Advice, Seen, advise
from gemmgrid.measure.host import conditions
from tests.measure import machine_trees as trees


def seen(root, architecture="x86_64", **changes):
    facts = machine.facts(root, architecture)
    after = conditions.read("cpu", root=root)
    values = {"facts": facts, "before": after, "after": after, "root": root, **changes}
    return Seen(**values)


def findings(found):
    return [one.finding for one in advise(found)]


def test_a_server_out_of_the_box(tmp_path):
    found = findings(seen(trees.sapphire_rapids(tmp_path)))
    assert found[0] == "the CPU frequency governor is powersave"
    expected = {"turbo is on", "SMT (Hyper-Threading) is on", "automatic NUMA balancing is on"}
    expected |= {"transparent huge pages are set to always", "kernel.perf_event_paranoid is 4"}
    assert expected <= set(found)


def test_a_well_kept_server_gets_no_advice(tmp_path):
    root = trees.rome(tmp_path)
    trees.write(root, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    trees.write(root, "proc/sys/kernel/perf_event_paranoid", 2)
    (root / "sys/bus/event_source/devices/cpu").mkdir(parents=True)
    found = seen(root)
    assert findings(found) == ["memory is divided into 8 NUMA nodes"]  # which nobody can cure
    assert "Nothing was found" in doctor.report(found, [])


def test_a_laptop(tmp_path):
    found = findings(seen(trees.hybrid(tmp_path)))
    assert found[0] == "the machine runs on battery"
    assert "4 of its 6 cores are slow ones" in found


def test_a_guest(tmp_path):
    assert "this is a virtual machine (ec2)" in findings(seen(trees.graviton3(tmp_path), "aarch64"))


def changed(root, **after):
    quiet = conditions.read("cpu", root=root)
    return {**quiet, **after}


@pytest.mark.parametrize(
    ("after", "flags", "word"),
    [
        ({"steal": 0.2}, ["steal"], "hypervisor took away 20%"),
        ({"others_cpus": 1.5}, ["loaded"], "other processes used 1.5 CPUs"),
        ({"quota_cpus": 1.5}, [], "allows 1.5 CPUs"),
        ({"free_bytes": 1 << 30}, [], "1.0 GiB of memory are free"),
        ({"throttle_events": 12}, [], "throttled for heat 12 times"),
        ({"allowed_cpus": 2}, [], "may use 2 of 8 CPUs"),
        ({"gpu": {"other_processes": 2}}, [], "other processes have the GPU open: 2"),
    ],
)
def test_what_was_read_now(tmp_path, after, flags, word):
    root = trees.rome(tmp_path)
    before = findings(seen(root))
    found = findings(seen(root, after=changed(root, **after), flags=flags))
    new = [one for one in found if one not in before]
    assert len(new) == 1
    assert word in new[0]


def test_variables_of_the_shell_are_named(tmp_path):
    root = trees.rome(tmp_path)
    shell = {"OPENBLAS_CORETYPE": "Haswell", "PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    text = doctor.report(found := seen(root, variables=shell), advise(found))
    assert "Your shell sets OPENBLAS_CORETYPE" in text
    assert "unset OPENBLAS_CORETYPE" in text
    assert "hunter2" not in text


def test_the_projects_own_path_is_not_the_shells():
    own = str(Path(doctor.__file__).parents[3])
    assert doctor.shell_variables({"PYTHONPATH": own, "A": "1"}) == {"A": "1"}
    both = {"PYTHONPATH": f"{own}:/opt/site"}
    assert doctor.shell_variables(both) == {"PYTHONPATH": "/opt/site"}


def test_an_unreadable_machine_gives_advice_not_errors(tmp_path):
    empty = Seen({}, {}, {}, root=tmp_path)
    assert advise(empty) == []
    assert doctor.report(empty, [])
    assert findings(seen(tmp_path)) == []


def test_every_check_can_find_something(tmp_path):
    """A check that never speaks would be dead text."""
    worst = trees.sapphire_rapids(tmp_path)
    trees.write(worst, "sys/devices/cpu_core/cpus", "0-3,8-11")
    trees.write(worst, "sys/devices/cpu_atom/cpus", "4-7,12-15")
    facts = machine.facts(worst, "x86_64")
    facts["virtualisation"] = "kvm"
    facts["unknown"]["gpus"] = "no driver"
    after = changed(
        worst,
        steal=0.1,
        others_cpus=2.0,
        quota_cpus=1.0,
        free_bytes=1,
        power_source="battery",
        gpu={"other_processes": 1},
    )
    after["allowed_cpus"] = 1
    shell = {"OMP_PROC_BIND": "true"}
    found = Seen(facts, after, after, ["steal", "loaded"], shell, worst)
    facts["numa"] = 2
    silent = {check.name for check in CHECKS if check.advise(found) is None}
    # It has eight cores, one setting of huge pages, and the perf level hides its counters.
    assert silent == {"few_cores", "no_huge_pages", "counters"}
    facts["cpu"]["cores"] = 2
    trees.write(worst, "proc/sys/kernel/perf_event_paranoid", 2)
    trees.write(worst, "sys/bus/event_source/devices/software/type", 1)
    seldom = Seen(facts, after | {"thp": "never"}, after | {"thp": "never"}, root=worst)
    names = {check.name for check in CHECKS if check.advise(seldom)}
    assert {"few_cores", "no_huge_pages", "counters"} <= names


def test_the_text(tmp_path):
    found = seen(trees.sapphire_rapids(tmp_path))
    text = doctor.report(found, advise(found))
    assert text.startswith("Intel(R) Xeon(R) Platinum 8480+, 8 cores, Rocky Linux 9.4\n")
    assert "! 1. The CPU frequency governor is powersave" in text
    assert "cpupower frequency-set -g performance" in text
    assert "changes none of them" in text
    assert max(len(line) for line in text.splitlines()) <= 100
    long = Advice("some", "x", "why " * 60, "do")
    assert all(len(line) <= 88 for line in doctor.report(found, [long]).splitlines()[4:])


def test_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "gemmgrid", "doctor"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3] / "workflow",
    )
    assert "cores" in done.stdout
    assert done.stderr == ""
