"""Which jobs have ended, whatever SLURM's queue and accounting say, or do not say."""

from __future__ import annotations

import sys
import threading

import pytest

from gemmgrid.plan.slurm.ask import Answer
from snakemake_executor_plugin_gemmgrid_slurm.watch import GONE_S, Watch

SILENT = "SLURM does not answer (slurmctld or slurmdbd down?)"


class Site:
    """A test double of SLURM's commands.

    accounting, queue   what sacct and squeue list, None where they fail
    reasons             why jobs wait
    """

    def __init__(self) -> None:
        self.accounting: dict[str, str] | None = {}
        self.queue: dict[str, str] | None = {}
        self.reasons: dict[str, str] = {}
        self.now, self.said = 1000.0, list[str]()
        self.asked: list[tuple[str, ...]] = []
        self.cancelled: list[str] = []
        self.watch = Watch("gemmgrid-1", self.said.append, self.ask, lambda: self.now)

    def ask(self, command: str, *words: str, limit_s: float = 10.0) -> Answer:
        self.asked.append((command, *words))
        if command == "scancel":
            self.cancelled += words
            return Answer("")
        if command == "squeue":
            found = self.queue
            rows = [
                f"{job}|{state}|{self.reasons.get(job, 'None')}"
                for job, state in (found or {}).items()
            ]
        elif command == "sacct" and "-X" in words:
            found = self.accounting
            rows = [f"{job}|{state}" for job, state in (found or {}).items()]
        else:  # why a job ended
            return Answer(None, "not now")
        return Answer(None, "down") if found is None else Answer("\n".join(rows))

    def send(self, *jobs: str) -> Site:
        for job in jobs:
            self.watch.add(job)
        return self

    def poll(self, seconds: float = 10.0) -> dict[str, str]:
        """What has ended, after some time: well, or why not."""
        self.now += seconds
        ended = self.watch.look()
        for job in ended:
            self.watch.forget(job)
        return {job: "well" if found is None else "badly" for job, found in ended.items()}

    def poll_until_gone(self, job: str = "7") -> dict[str, str]:
        assert self.poll() == {}
        assert self.poll(GONE_S) == {}
        return self.poll(1)


@pytest.fixture
def site() -> Site:
    return Site().send("7")


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUSPENDED", "COMPLETING"])
def test_a_job_that_the_queue_lists_is_waited_for(site, state):
    site.queue = {"7": state}
    assert [site.poll(600) for _ in range(3)] == [{}] * 3


def test_one_question_is_enough_while_all_is_well(site):
    site.send("8").queue = {"7": "RUNNING", "8": "PENDING"}
    site.poll()
    (words,) = site.asked
    assert words[0] == "squeue"
    assert {"--name=gemmgrid-1", "--states=all", "--all", "--me"} <= set(words)


def test_accounting_is_asked_once_for_all_that_the_queue_does_not_list(site):
    site.send("8", "9").queue = {"8": "RUNNING"}
    site.accounting = {"7": "RUNNING", "9": "RUNNING"}
    site.poll()
    assert [words[0] for words in site.asked] == ["squeue", "sacct"]
    assert "7,9" in site.asked[1]


@pytest.mark.parametrize(
    "state",
    [
        *("BOOT_FAIL", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT", "CANCELLED"),
        *("PREEMPTED", "NODE_FAIL", "CANCELLED by 1001"),
    ],
)
@pytest.mark.parametrize("in_queue", [True, False])
def test_an_end_is_told_at_once(site, state, in_queue):
    site.accounting = {"7": state}
    site.queue = {"7": state.split()[0]} if in_queue else {}
    assert site.poll() == {"7": "badly"}


@pytest.mark.parametrize("queue", [{"7": "COMPLETED"}, {"7": "COMPLETING"}, {}, None])
def test_a_good_end_is_one(site, queue):
    site.accounting, site.queue = {"7": "COMPLETED"}, queue
    assert site.poll() == {"7": "well"}


def test_a_job_cancelled_by_somebody_is_cancelled_without_the_queue(site):
    site.accounting, site.queue = {"7": "CANCELLED by 1001"}, None
    assert site.poll() == {"7": "badly"}


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "CANCELLED by 0", "FAILED"])
def test_a_job_that_is_requeued_is_waited_for(site, state):
    site.accounting = {"7": state}
    for in_queue in ("COMPLETING", "PENDING", "CONFIGURING", "RUNNING"):
        site.queue = {"7": in_queue}
        assert site.poll(200) == {}
    site.accounting, site.queue = {"7": "COMPLETED"}, {}
    assert site.poll() == {"7": "well"}


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL"])
def test_whether_a_job_comes_back_is_not_guessed_without_the_queue(site, state):
    site.accounting, site.queue = {"7": state}, None
    assert site.poll() == site.poll(3600) == {}
    site.queue = {"7": "PENDING"}
    assert site.poll() == {}
    site.queue = {}
    assert site.poll() == {"7": "badly"}


@pytest.mark.parametrize("state", ["UNKNOWN", "REVOKED", "EXPEDITING"])
def test_a_word_that_nobody_knows_is_neither_success_nor_end(site, state):
    site.accounting = site.queue = {"7": state}
    assert site.poll(600) == {}
    site.queue = {}
    assert site.poll_until_gone() == {"7": "badly"}


def test_a_job_that_is_never_listed_is_gone_after_a_while(site):
    assert site.poll_until_gone() == {"7": "badly"}


def test_a_job_that_comes_back_into_sight_gets_its_time_again(site):
    assert site.poll() == site.poll(GONE_S) == {}
    site.queue = {"7": "RUNNING"}
    assert site.poll() == {}
    site.queue = {}
    assert site.poll_until_gone() == {"7": "badly"}


def test_a_job_whose_end_the_accounting_missed_does_not_run_for_ever(site):
    site.accounting = site.queue = {"7": "RUNNING"}
    assert site.poll() == {}
    site.queue = {}
    assert site.poll_until_gone() == {"7": "badly"}


def test_a_queue_that_never_listed_a_job_does_not_end_it(site):
    site.accounting = {"7": "RUNNING"}
    assert [site.poll(600) for _ in range(4)] == [{}] * 4


def test_the_queue_is_believed_where_the_accounting_lags(site):
    site.accounting, site.queue = {"7": "RUNNING"}, {"7": "TIMEOUT"}
    assert site.poll() == {"7": "badly"}


def test_without_accounting_the_queue_tells(site):
    site.accounting = None
    site.send("8", "9").queue = {"7": "RUNNING", "8": "COMPLETED", "9": "PREEMPTED"}
    assert site.poll() == {"8": "well", "9": "badly"}
    site.queue = {}
    assert site.poll_until_gone() == {"7": "badly"}


def test_an_outage_is_said_once_and_loses_no_job(site):
    site.queue = {"7": "RUNNING"}
    site.poll()
    site.accounting = site.queue = None
    assert [site.poll(200) for _ in range(5)] == [{}] * 5
    (said,) = site.said
    assert said.startswith(SILENT)
    site.accounting = {"7": "RUNNING"}
    site.poll(200)
    assert site.said[1:] == ["SLURM answers again, after 1000 s"]
    site.accounting = None
    site.poll()
    assert site.said[2].startswith(SILENT)


def test_an_outage_does_not_count_as_being_out_of_sight(site):
    site.accounting = site.queue = None
    site.poll(3600)
    site.accounting, site.queue = {}, {}
    assert site.poll_until_gone() == {"7": "badly"}


def test_an_answer_from_one_of_both_is_no_outage(site):
    site.accounting, site.queue = None, {"7": "RUNNING"}
    site.poll()
    site.accounting, site.queue = {"7": "RUNNING"}, None
    site.poll()
    assert site.said == []


def test_jobs_of_several_kinds_at_once(site):
    site.send("8", "9", "10")
    site.accounting = {"7": "RUNNING", "8": "CANCELLED by 0", "9": "COMPLETED", "10": "NODE_FAIL"}
    site.queue = {"7": "RUNNING", "10": "PENDING"}
    assert site.poll() == {"8": "badly", "9": "well"}


def test_jobs_can_be_sent_while_an_answer_is_looked_at(site):
    def send() -> None:
        for number in range(100, 3100):
            site.send(str(number))

    sender = threading.Thread(target=send)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        sender.start()
        while sender.is_alive():
            assert site.poll(0) == {}
    finally:
        sys.setswitchinterval(before)
        sender.join()


def test_a_job_that_waits_for_its_turn_is_not_told(site):
    site.send("8", "9").queue = dict.fromkeys(("7", "8", "9"), "PENDING")
    site.reasons = {"7": "Priority", "8": "Resources", "9": "BeginTime"}
    assert site.poll() == {}
    assert site.said == []


def test_what_is_odd_is_said_once(site):
    site.queue = {"7": "PENDING", "1": "PENDING"}
    site.reasons = {"7": "PartitionTimeLimit", "1": "JobHeldAdmin"}  # 1 is none of ours
    assert site.poll() == site.poll() == {}
    assert site.said == ["SLURM job 7 waits: PartitionTimeLimit"]
    site.reasons["7"] = "JobHeldUser"
    site.poll()
    assert site.said[1:] == ["SLURM job 7 waits: JobHeldUser"]
    assert site.cancelled == []


def test_a_launch_that_failed_is_given_up(site):
    site.send("8").queue = {"7": "PENDING", "8": "PENDING"}
    site.reasons = {"7": "launch failed requeued held", "8": "Priority"}
    site.now += 1
    ended = site.watch.look()
    assert list(ended) == ["7"]
    why = "HELD: SLURM job 7 did not start and was held: launch failed requeued held"
    assert ended["7"] is not None and ended["7"].text == why
    assert site.cancelled == ["7"]
