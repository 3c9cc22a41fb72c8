"""A job that waits for more than its turn is told of, once; a hopeless one is given up."""

from __future__ import annotations

from gemmgrid.plan.slurm.ask import Answer
from gemmgrid.plan.slurm.held import LOOK_S, Held


class Queue:
    """A test double of squeue and scancel."""

    def __init__(self, **reasons: str) -> None:
        self.reasons, self.cancelled, self.now = reasons, list[str](), 0.0
        self.held = Held(self.ask, lambda: self.now)

    def ask(self, command: str, *arguments: str, limit_s: float = 10.0) -> Answer:
        if command == "scancel":
            self.cancelled += arguments
            return Answer("")
        assert command == "squeue"
        return Answer("".join(f"{job[1:]}|{why}\n" for job, why in self.reasons.items()))

    def look(self, *jobs: str) -> list[str]:
        self.now += LOOK_S
        return self.held(jobs)


def test_its_turn_will_come(capsys):
    queue = Queue(j1="Priority", j2="Resources", j3="BeginTime")
    assert queue.look("1", "2", "3") == []
    assert capsys.readouterr().err == ""


def test_what_is_odd_is_said_once(capsys):
    queue = Queue(j1="PartitionTimeLimit", j9="JobHeldAdmin")
    assert queue.look("1") == queue.look("1") == []
    assert capsys.readouterr().err == "gemmgrid: SLURM job 1 waits: PartitionTimeLimit\n"
    queue.reasons["j1"] = "JobHeldUser"
    queue.look("1")
    assert capsys.readouterr().err == "gemmgrid: SLURM job 1 waits: JobHeldUser\n"
    assert queue.cancelled == []


def test_a_launch_that_failed_is_given_up(capsys):
    queue = Queue(j1="launch failed requeued held", j2="Priority")
    assert queue.look("1", "2") == ["1"]
    assert queue.look("1", "2") == ["1"]
    assert queue.cancelled == ["1"]
    why = "HELD: SLURM job 1 did not start and was held: launch failed requeued held"
    assert queue.held.given_up == {"1": why}


def test_the_queue_is_asked_now_and_then():
    queue = Queue(j1="launch failed requeued held")
    assert queue.held(["1"]) == ["1"]
    queue.reasons = {"j2": "launch failed requeued held"}
    queue.now += LOOK_S / 2
    assert queue.held(["2"]) == []
    queue.now += LOOK_S
    assert queue.held(["2"]) == ["2"]
    assert queue.held([]) == []
