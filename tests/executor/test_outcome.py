"""Why a job ended: from what sacct and scontrol of 22.05 print to a phrase that people read."""

from __future__ import annotations

import pytest

from gemmgrid.plan.slurm.ask import Answer
from snakemake_executor_plugin_gemmgrid_slurm.outcome import Outcome, outcome_of, refused

NO_SACCT = "'sacct' is not installed here (not found in PATH)"
INVALID = (
    "'scontrol -o show job 9' ended with exit code 1: slurm_load_jobs error: Invalid job id "
    "specified"
)
# JobID|State|ExitCode|DerivedExitCode|Reason|NodeList|Timelimit|ReqMem|MaxRSS|Partition
TIMEOUT = """\
9|TIMEOUT|0:0|0:0|None|ice1|00:02:00|1856M||cpu
9.batch|CANCELLED|0:15|||ice1|||109460K|
9.0|CANCELLED|0:15|||ice1|||139252K|
"""
OUT_OF_MEMORY = """\
9|OUT_OF_MEMORY|0:125|0:0|None|ice1|00:12:00|120M||cpu
9.batch|OUT_OF_MEMORY|0:125|||ice1|||105596K|
9.0|CANCELLED|0:15|||ice1|||46748K|
"""
# Of a payload that the kernel killed only the step tells.
KILLED_PAYLOAD = """\
9|FAILED|1:0|0:125|None|ice1|00:12:00|2G||cpu
9.batch|FAILED|1:0|||ice1|||1.50M|
9.extern|COMPLETED|0:0|||ice1||||
9.0|OUT_OF_MEMORY|0:125|||ice1|||2097152K|
"""
NODE_FAIL = """\
9|NODE_FAIL|0:0|0:0|None|gpu1|00:12:00|1856M||gpu
9.batch|CANCELLED||||gpu1||||
9.0|CANCELLED||||gpu1||||
"""
PREEMPTED = """\
9|PREEMPTED|0:0|0:0|None|mil1|00:12:00|1856M||spare
9.batch|CANCELLED|0:15|||mil1|||109460K|
"""
CANCELLED = """\
9|CANCELLED by 0|0:0|0:0|None|fat1|00:12:00|1856M||fat
9.batch|CANCELLED|0:15|||fat1|||109468K|
"""
CANCELLED_WAITING = "9|CANCELLED by 4242424|0:0|0:0|None|None assigned|00:12:00|1856M||fat\n"
FAILED = """\
9|FAILED|1:0|0:0|None|ice1|00:12:00|1856M||cpu
9.batch|FAILED|1:0|||ice1|||109460K|
"""
COMPLETED = "9|COMPLETED|0:0|0:0|None|ice1|00:12:00|1856M||cpu\n"

CONTROLLER = (
    "JobId=9 JobName=gemmgrid_e1a2f2b8 UserId=root(0) GroupId=root(0) MCS_label=N/A Account=root "
    "QOS=normal JobState={state} Reason={reason} Dependency=(null) Requeue=1 Restarts=0 "
    "BatchFlag=1 Reboot=0 ExitCode={code} DerivedExitCode={derived} RunTime=00:00:05 "
    "TimeLimit={limit} TimeMin=N/A Partition=cpu AllocNode:Sid=localhost:16866 ReqNodeList=(null) "
    "ExcNodeList=(null) NodeList={nodes} BatchHost=ice1 NumNodes=1 NumCPUs=2 "
    "TRES=cpu=2,mem=120M,node=1,billing=2 MinCPUsNode=2 MinMemoryNode=120M Features=icelake "
    "OverSubscribe=NO Command=/dev/stdin WorkDir=/tmp/bad0 "
    "Comment=rule_a JobState=RUNNING NodeList=elsewhere Power= \n"
)


def controller(state, reason="None", code="0:0", derived="0:0", limit="00:12:00", nodes="ice1"):
    words = {"state": state, "reason": reason, "code": code, "derived": derived}
    return CONTROLLER.format(**words, limit=limit, nodes=nodes)


def asking(accounting: str | None, remembered: str | None = None):
    """A test double of `ask`: what sacct and scontrol say, None where they fail."""

    def ask(command, *words, **more):
        if command == "sacct":
            assert words[words.index("-j") + 1] == "9"
            return Answer(None, NO_SACCT) if accounting is None else Answer(accounting)
        assert (command, *words) == ("scontrol", "-o", "show", "job", "9")
        return Answer(None, INVALID) if remembered is None else Answer(remembered)

    return ask


@pytest.mark.parametrize(
    ("rows", "state", "text", "place"),
    [
        (TIMEOUT, "TIMEOUT", "on ice1 reached its time limit of 2 minutes", ("ice1", "cpu")),
        (
            OUT_OF_MEMORY,
            "OUT_OF_MEMORY",
            "on ice1 ran out of memory: it had asked for 120 MB (103 MB were seen in use); "
            "memory_mb in config/machines.yaml asks for more",
            ("ice1", "cpu"),
        ),
        (
            KILLED_PAYLOAD,
            "OUT_OF_MEMORY",
            "on ice1 ran out of memory: it had asked for 2 GB (2048 MB were seen in use); "
            "memory_mb in config/machines.yaml asks for more",
            ("ice1", "cpu"),
        ),
        (NODE_FAIL, "NODE_FAIL", "on gpu1 ended when the node failed", ("gpu1", "gpu")),
        (PREEMPTED, "PREEMPTED", "on mil1 had to make way for another job", ("mil1", "spare")),
        (CANCELLED, "CANCELLED", "on fat1 was cancelled by root", ("fat1", "fat")),
        (CANCELLED_WAITING, "CANCELLED", "was cancelled by user 4242424", (None, "fat")),
        (FAILED, "FAILED", "on ice1 failed with exit code 1", ("ice1", "cpu")),
        (COMPLETED, "COMPLETED", "on ice1 ended without an error", ("ice1", "cpu")),
        (
            FAILED.replace("1:0", "0:9"),
            "FAILED",
            "on ice1 failed: signal 9 ended it",
            ("ice1", "cpu"),
        ),
        (
            FAILED.replace("|None|", "|JobLaunchFailure|"),
            "FAILED",
            "on ice1 failed with exit code 1 (reason: JobLaunchFailure)",
            ("ice1", "cpu"),
        ),
        (
            COMPLETED.replace("COMPLETED", "BOOT_FAIL"),
            "BOOT_FAIL",
            "on ice1 did not start: the node did not boot",
            ("ice1", "cpu"),
        ),
        (
            COMPLETED.replace("COMPLETED", "DEADLINE"),
            "DEADLINE",
            "on ice1 passed its deadline",
            ("ice1", "cpu"),
        ),
    ],
)
def test_from_the_accounting(rows, state, text, place):
    found = outcome_of("9", asking(rows))
    assert found == Outcome("9", state, f"{state}: SLURM job 9 {text}", *place)


@pytest.mark.parametrize(
    ("limit", "spelled"),
    [
        ("00:01:00", " of 1 minute"),
        ("01:30:00", " of 90 minutes"),
        ("02:00:00", " of 2 h"),
        ("1-00:05:00", " of 24 h 5 min"),
        ("UNLIMITED", ""),
        ("Partition_Limit", ""),
        ("", ""),
    ],
)
def test_time_limits_are_spelled(limit, spelled):
    found = outcome_of("9", asking(TIMEOUT.replace("00:02:00", limit)))
    assert found.text == f"TIMEOUT: SLURM job 9 on ice1 reached its time limit{spelled}"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("4000Mn", ": it had asked for 4000 MB (103 MB"),  # SLURM before 21.08
        ("1.50Gc", ": it had asked for 1.50 GB for each CPU (103 MB"),
        ("0", ""),
        ("0n", ""),
        ("", ""),
    ],
)
def test_memory_as_versions_spell_it(asked, told):
    found = outcome_of("9", asking(OUT_OF_MEMORY.replace("120M", asked)))
    assert found.text.startswith(f"OUT_OF_MEMORY: SLURM job 9 on ice1 ran out of memory{told}")


def test_memory_that_ran_out_on_the_way_does_not_hide_another_end():
    found = outcome_of("9", asking(TIMEOUT + "9.1|OUT_OF_MEMORY|0:125|||ice1|||1K|\n"))
    assert found.state == "TIMEOUT"


@pytest.mark.parametrize("accounting", [None, "", "\n", "Slurm accounting storage is disabled\n"])
@pytest.mark.parametrize(
    ("line", "state", "text"),
    [
        (controller("COMPLETED"), "COMPLETED", "on ice1 ended without an error"),
        (
            controller("TIMEOUT", "TimeLimit", "0:15", limit="00:02:00"),
            "TIMEOUT",
            "on ice1 reached its time limit of 2 minutes",
        ),
        (
            controller("OUT_OF_MEMORY", "OutOfMemory", "0:125"),
            "OUT_OF_MEMORY",
            "on ice1 ran out of memory: it had asked for 120 MB; memory_mb in "
            "config/machines.yaml asks for more",
        ),
        (
            controller("FAILED", "NonZeroExitCode", "1:0", "0:125"),
            "OUT_OF_MEMORY",
            "on ice1 ran out of memory: it had asked for 120 MB; memory_mb in "
            "config/machines.yaml asks for more",
        ),
        (controller("NODE_FAIL", "NodeDown"), "NODE_FAIL", "on ice1 ended when the node failed"),
        (controller("PREEMPTED"), "PREEMPTED", "on ice1 had to make way for another job"),
        (controller("CANCELLED", nodes="(null)"), "CANCELLED", "was cancelled"),
        (
            controller("FAILED", "NonZeroExitCode", "2:0"),
            "FAILED",
            "on ice1 failed with exit code 2",
        ),
    ],
)
def test_from_the_controller_where_there_is_no_accounting(accounting, line, state, text):
    found = outcome_of("9", asking(accounting, line))
    assert (found.state, found.text) == (state, f"{state}: SLURM job 9 {text}")
    assert found.partition == "cpu"
    assert found.node == (None if " NodeList=(null)" in line else "ice1")


def test_the_controller_knows_of_an_end_that_the_accounting_has_not_heard_of():
    running = COMPLETED.replace("COMPLETED", "RUNNING")
    assert outcome_of("9", asking(running, controller("TIMEOUT", "TimeLimit"))).state == "TIMEOUT"


def test_a_job_that_is_nowhere_but_runs_for_the_accounting():
    found = outcome_of("9", asking(COMPLETED.replace("COMPLETED", "RUNNING")))
    assert (found.state, found.node) == ("RUNNING", "ice1")
    assert found.text == (
        "RUNNING: SLURM job 9 on ice1 was lost sight of: SLURM's queue does not list it any more"
    )


def test_nothing_at_all():
    assert outcome_of("9", asking(None)) == Outcome(
        "9", None, f"SLURM does not know job 9 any more ({NO_SACCT}; {INVALID})"
    )
    assert outcome_of("9", asking("")).text == (
        f"SLURM does not know job 9 any more (its accounting does not list it; {INVALID})"
    )


@pytest.mark.parametrize(
    "text", ["|||", "9|", "9|TIMEOUT", "99|TIMEOUT|0:0|0:0|None|ice1|00:02:00|1M||cpu", "9" * 999]
)
def test_odd_answers_do_not_raise(text):
    assert outcome_of("9", asking(text)).state is None
    assert outcome_of("9", asking(text, text)).state is None
    assert outcome_of("9", asking("9||||||||||", "JobId=9")).job == "9"
    assert outcome_of("9", asking("9|||||||||")).text.startswith(
        "UNKNOWN: SLURM job 9 was lost sight of"
    )


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            "sbatch: error: Batch job submission failed:\n Job violates accounting/QOS policy (job "
            "submit limit, user's size and/or time limits)\n",
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job "
            "submit limit, user's size and/or time limits) (with fewer allocations at a time it "
            "may: --jobs N, or more cells_per_allocation)",
        ),
        ("", "sbatch was interrupted"),
        ("something else", "something else"),
    ],
)
def test_a_refusal_is_told_whole(message, text):
    found = refused(message)
    assert found.text == f"REFUSED: SLURM did not take the job: {text}"
    assert (found.job, found.state) == ("", "REFUSED")


def test_what_a_lost_run_says_of_it():
    assert outcome_of("9", asking(PREEMPTED)).lost() == {
        "reason": "PREEMPTED: SLURM job 9 on mil1 had to make way for another job",
        "job_id": "9",
        "node": "mil1",
        "partition": "spare",
    }
    assert refused("no").lost()["job_id"] is None
