"""Rounds that were measured in several SLURM jobs, joined on a host that measured none of them."""

from __future__ import annotations

import json

import pytest

from gemmgrid.measure.supervise import rounds as gathering
from gemmgrid.measure.supervise.rounds import gather
from tests.measure.parts import part, slurm

SMALL = {"architecture": "x86_64", "cpu": {"vendor": "GenuineIntel", "cores": 1, "logical": 1}}


class LoginNode:
    """A test double of the host that gathers: one core, which cannot do 13 TFLOP/s."""

    host = {"id": "bbbbbbbbbbbb"}  # noqa: RUF012
    facts = SMALL

    def __init__(self, device: str) -> None:
        pass


@pytest.fixture
def joined(monkeypatch):
    monkeypatch.setattr(gathering, "ThisMachine", LoginNode)

    def join(*parts):
        return gather([json.loads(json.dumps(one)) for one in parts])

    return join


def test_jobs_and_nodes_are_all_named(joined):
    run = joined(
        part(1, 3),
        part(2, 3, slurm=slurm(job_id="8", node="ice2")),
        part(3, 3, slurm=slurm(job_id="9", node="ice2")),
    )
    assert (run["slurm"]["job_id"], run["slurm"]["node"]) == ("7, 8, 9", "ice1, ice2")
    assert run["slurm"]["partition"] == "cpu"
    assert [one["round"] for one in run["invocations"]] == [1, 2, 3]
    assert (run["started_at"], run["ended_at"]) == (
        "2026-11-30T12:00:01.000000Z",
        "2026-11-30T12:00:03.500000Z",
    )


def test_rounds_of_one_job_are_of_one_job(joined):
    run = joined(part(1, 2), part(2, 2))
    assert run["slurm"] == slurm()


def test_outside_slurm_there_is_no_job(joined):
    run = joined(part(1, 2, slurm=None, promise=None), part(2, 2, slurm=None, promise=None))
    assert (run["slurm"], run["promise"]) == (None, None)
    older = [part(number, 2) for number in (1, 2)]
    for one in older:
        del one["slurm"], one["promise"]
    assert not {"slurm", "promise"} & joined(*older).keys()


def test_a_job_is_told_wherever_it_was(joined):
    run = joined(part(1, 2, slurm=None, promise=None), part(2, 2))
    assert run["slurm"] == slurm()
    assert run["promise"]["cpus"] == 64


UNKNOWN = slurm(exclusive=None, unknown={"exclusive": "scontrol: down"})


@pytest.mark.parametrize(
    ("first", "second", "exclusive", "why"),
    [
        (slurm(), slurm(), True, None),
        (slurm(), slurm(exclusive=False), False, None),
        (slurm(exclusive=False), slurm(), False, None),
        (slurm(), UNKNOWN, None, "scontrol: down"),
        (UNKNOWN, slurm(), None, "scontrol: down"),
        (UNKNOWN, slurm(exclusive=False), False, None),
    ],
)
def test_the_node_was_the_jobs_alone_if_it_was_in_every_round(
    joined, first, second, exclusive, why
):
    found = joined(part(1, 2, slurm=first), part(2, 2, slurm=second))["slurm"]
    assert found["exclusive"] is exclusive
    assert found["unknown"].get("exclusive") == why


def test_every_broken_promise_is_told_once(joined):
    cpus, gpu = "64 CPUs are promised, 2 may be used", "a GPU is promised, and none is to be seen"
    promise = part()["promise"]
    run = joined(
        part(1, 3),
        part(2, 3, promise={**promise, "broken": [cpus]}, flags=["other-machine"]),
        part(3, 3, promise={**promise, "broken": [cpus, gpu]}, flags=["other-machine"]),
    )
    assert run["promise"] == {**promise, "broken": [cpus, gpu]}
    assert "other-machine" in run["flags"]


def test_rounds_on_different_hardware_are_flagged(joined):
    run = joined(part(1, 2), part(2, 2, host={"id": "cccccccccccc"}))
    assert run["flags"].count("other-machine") == 1


def test_a_fast_node_is_not_judged_by_a_slow_login_node(joined):
    run = joined(part(1, 2), part(2, 2))
    assert (run["status"], run["reason"]) == ("ok", None)
    own = [part(number, 2, host={"id": LoginNode.host["id"]}) for number in (1, 2)]
    assert joined(*own)["status"] == "implausible"


def test_what_a_node_found_implausible_stays_so(joined):
    bad = {"status": "implausible", "reason": "1e-9 s a call, and no such device is so fast"}
    run = joined(part(1, 2), part(2, 2, **bad))
    assert {key: run[key] for key in bad} == bad


def test_a_worse_end_of_another_round_counts_more(joined):
    bad = part(2, 2)
    bad["invocations"][0] |= {"status": "wrong", "reason": "zeros"}
    run = joined(part(1, 2, status="implausible", reason="too fast"), bad)
    assert (run["status"], run["reason"]) == ("wrong", "zeros")


def test_a_round_that_failed_leaves_the_others_their_samples(joined):
    failure = {"stage": "first-call", "exit_code": None, "signal": "SIGSEGV"}
    dead = {**part(2, 2)["invocations"][0], "status": "crashed", "reason": "SIGSEGV"}
    bad = part(2, 2, status="crashed", reason="SIGSEGV", failure=failure, invocations=[dead])
    run = joined(part(1, 2), bad)
    assert (run["status"], run["reason"], run["failure"]) == ("crashed", "SIGSEGV", failure)
    assert [one["status"] for one in run["invocations"]] == ["ok", "crashed"]
    unmade = part(2, 2, status="env-failed", reason="no python", invocations=[])
    run = joined(part(1, 2), unmade)
    assert (run["status"], run["reason"]) == ("env-failed", "no python")
    assert run["invocations"][0]["samples"]["elapsed_ns"]


def test_what_one_round_could_not_tell_of_its_machine_is_kept(joined):
    told = {"promise": "machine.json cannot be read"}
    run = joined(part(1, 2, unknown={"gpu": "x"}), part(2, 2, unknown=told))
    assert run["unknown"] == {"gpu": "x", **told}
    assert joined(part(1, 2), part(2, 2))["unknown"] == {}


def test_what_was_doubted_of_a_part_is_decided_anew_of_the_whole(joined):
    """Three processes of one round may scatter widely; fifteen of five rounds need not."""
    parts = [part(number, 5) for number in range(1, 6)]
    parts[0]["flags"] = ["noisy", "one-round", "few-invocations", "no-blas", "loaded"]
    run = joined(*parts)
    assert run["flags"] == ["loaded"]
