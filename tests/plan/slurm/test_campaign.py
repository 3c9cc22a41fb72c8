"""What was sent and what became of it, and what a killed run leaves to the next."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from gemmgrid.plan.slurm.ask import Answer
from gemmgrid.plan.slurm.campaign import Campaign, cancel, left_behind, wait_until_gone
from gemmgrid.plan.slurm.outcome import Outcome

A, B, C = (f"results/ice/numpy-openblas/{name}.jsonl" for name in "abc")
TIMEOUT = Outcome("7", "TIMEOUT", "TIMEOUT: SLURM job 7 on ice1 reached its time limit", "ice1")
UUID = "gemmgrid_e1a2f2b8-1703-4521-a1aa-560b0a09d2fa"


@pytest.fixture
def campaign(tmp_path):
    return Campaign(tmp_path / "slurm/campaign.json")


def queue(*lines):
    """A test double of `ask`: squeue answers with these lines."""

    def ask(command, *words, **more):
        assert command == "squeue"
        return Answer("".join(f"{line}\n" for line in lines))

    return ask


def test_cells_of_an_allocation_that_failed_have_its_outcome(campaign):
    campaign.add("7", "ice", [B, A])
    campaign.add("8", "ice", [C])
    found = campaign.find("7")
    assert found.cells == [A, B]
    assert campaign.find("9") is None
    assert campaign.outcomes() == {}
    found.outcome = TIMEOUT
    assert campaign.outcomes() == {A: TIMEOUT, B: TIMEOUT}


def test_the_last_allocation_of_a_cell_counts(campaign):
    campaign.add("7", "ice", [A, B]).outcome = TIMEOUT
    campaign.add("8", "ice", [A])
    assert campaign.outcomes() == {B: TIMEOUT}


def test_a_refused_allocation_has_no_job(campaign):
    refused = Outcome("", "REFUSED", "SLURM did not take the job: no such account")
    campaign.add(None, "ice", [A]).outcome = refused
    assert campaign.outcomes() == {A: refused}
    assert json.loads(campaign.file.read_text())["jobs"] == []
    assert left_behind(campaign.file, queue(f"7 {UUID}")) == []


def test_allocations_are_sent_by_several_threads(campaign):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: campaign.add(str(number), "ice", [A]), range(60)))
    assert sorted(json.loads(campaign.file.read_text())["jobs"]) == sorted(map(str, range(60)))


def test_what_still_waits_or_runs_is_left_behind(campaign):
    for job in ("7", "8", "12"):
        campaign.add(job, "ice", [A])
    # 7 ended; 12 is somebody's job of another name, ids having come round; 70 is not ours.
    asking = queue(f"8 {UUID}", "12 train.sh", f"70 {UUID}", "13")
    assert left_behind(campaign.file, asking) == ["8"]


def test_hidden_partitions_are_looked_at(campaign):
    campaign.add("7", "ice", [A])
    asked = []

    def ask(*words, **more):
        asked.append(words)
        return Answer("")

    assert left_behind(campaign.file, ask) == []
    assert {"--all", "--me"} <= set(asked[0])


@pytest.mark.parametrize("content", ["", "{}", "[]", "7", '{"jobs": null}', '{"jobs": 7}', "\xff{"])
def test_a_file_that_says_nothing_leaves_nothing(tmp_path, content):
    file = tmp_path / "campaign.json"
    file.write_bytes(content.encode("latin-1"))
    assert left_behind(file, queue(f"7 {UUID}")) == []


def down(*_, **__):
    return Answer(None, "down")


def test_without_a_file_nothing_is_left_and_without_an_answer_nobody_knows(campaign):
    assert left_behind(campaign.file, queue(f"7 {UUID}")) == []
    assert left_behind(campaign.file, down) == []
    campaign.add("7", "ice", [A])
    assert left_behind(campaign.file, down) is None
    campaign.close()
    assert not campaign.file.exists()
    campaign.close()


def test_a_disk_that_is_full_does_not_lose_an_allocation(campaign, capfd):
    campaign.file.parent.mkdir()
    campaign.file.mkdir()  # in the file's place, so that it cannot be written
    (campaign.file / "inside").touch()
    assert campaign.add("7", "ice", [A]) is campaign.find("7")
    campaign.add("8", "ice", [B])
    said = capfd.readouterr().err
    assert "cannot be written" in said
    assert said.splitlines()[-1].endswith("scancel 7 8")


def test_cancelling(campaign):
    asked = []

    def ask(*words, **more):
        asked.append((words, more))
        return Answer(None, "'scancel 7 8' ended with exit code 1: no such job")

    assert cancel(["7", "8"], ask) == "'scancel 7 8' ended with exit code 1: no such job"
    assert asked == [(("scancel", "7", "8"), {"limit_s": 60.0})]
    assert cancel(["7"], lambda *_, **__: Answer("")) is None
    assert cancel([], ask) is None
    assert len(asked) == 1


def test_cancelled_jobs_are_waited_for(campaign):
    campaign.add("7", "ice", [A])
    answers = [Answer(f"7 {UUID}\n"), Answer(None, "down"), Answer("")]
    assert wait_until_gone(campaign.file, lambda *_, **__: answers.pop(0), pause_s=0.0)
    assert answers == []
    assert not wait_until_gone(campaign.file, queue(f"7 {UUID}"), seconds=0.0, pause_s=0.0)


def test_jobs_of_an_earlier_run_are_not_forgotten(campaign):
    campaign.add("7", "ice", [A])
    again = Campaign(campaign.file)
    again.add("8", "ice", [B])
    assert left_behind(campaign.file, queue(f"7 {UUID}", f"8 {UUID}")) == ["7", "8"]
