"""What a killed run has left at SLURM is ended before the next one sends, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from snakemake_interface_common.exceptions import WorkflowError

from gemmgrid.plan.slurm.ask import Answer
from snakemake_executor_plugin_gemmgrid_slurm.leftovers import Campaign

DOWN = Answer(None, "'squeue' did not answer within 10 s")


class Queue:
    """A test double of squeue and scancel: jobs by the name of their run."""

    def __init__(self, **jobs: str) -> None:
        self.jobs, self.cancelled, self.down = jobs, list[str](), False
        self.refuses: str | None = None

    def __call__(self, command: str, *words: str, limit_s: float = 10.0) -> Answer:
        if self.down:
            return DOWN
        if command == "scancel":
            if self.refuses:
                return Answer(None, self.refuses)
            self.cancelled += words
            return Answer("")
        assert "--all" in words and "--me" in words
        (names,) = [word[7:].split(",") for word in words if word.startswith("--name=")]
        found = [
            job
            for run, job in self.jobs.items()
            if run in names and not {job, f"--name={run}"} & {*self.cancelled}
        ]
        return Answer("".join(f"{job}\n" for job in found))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "slurm/campaign.json"


def campaign(file: Path, queue: Queue, own: str = "new") -> Campaign:
    return Campaign(file, own, queue)


def began(file: Path, name: str, queue: Queue) -> None:
    """A run of this name began to send and was killed."""
    campaign(file, queue, name).begin(print, 0.0)


def test_the_name_is_kept_before_anything_is_sent(file):
    said: list[str] = []
    campaign(file, Queue(), "first").begin(said.append, 0.0)
    assert json.loads(file.read_text()) == {"schema": 2, "runs": ["first"]}
    assert said == []


def test_jobs_of_a_killed_run_are_cancelled_and_only_those(file):
    queue, said = Queue(first="17", other="18"), list[str]()
    began(file, "first", Queue())
    new = campaign(file, queue)
    new.begin(said.append, 0.0)
    assert queue.cancelled == ["17"]
    (text,) = said
    assert text.startswith("cancelled SLURM jobs 17 of an interrupted run")
    assert json.loads(file.read_text())["runs"] == ["new"]
    new.begin(said.append, 0.0)  # with the second job
    assert len(said) == 1


def test_what_has_ended_meanwhile_is_nothing_to_tell(file):
    began(file, "first", Queue())
    said: list[str] = []
    campaign(file, Queue(other="18")).begin(said.append, 0.0)
    assert said == []


def test_nothing_is_sent_while_nobody_knows(file):
    began(file, "first", Queue())
    queue = Queue(first="17")
    queue.down = True
    with pytest.raises(WorkflowError, match="squeue does not answer, so nobody knows"):
        campaign(file, queue).begin(print, 0.0)
    assert json.loads(file.read_text())["runs"] == ["first"]


def test_without_an_earlier_run_the_queue_is_not_needed(file):
    queue = Queue()
    queue.down = True
    campaign(file, queue).begin(print, 0.0)
    assert file.exists()


def test_what_cannot_be_cancelled_stops(file):
    began(file, "first", Queue())
    queue = Queue(first="17")
    queue.refuses = "Access denied"
    with pytest.raises(WorkflowError, match=r"could not be cancelled: Access denied.*scancel 17"):
        campaign(file, queue).begin(print, 0.0)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"runs": 7}', '{"runs": [7]}', '{"jobs": ["7"]}'])
def test_a_file_that_says_nothing_stops_nobody(file, text):
    file.parent.mkdir()
    file.write_text(text)
    queue = Queue(first="7")
    campaign(file, queue).begin(print, 0.0)
    assert queue.cancelled == []


def test_a_file_that_cannot_be_written_is_told_with_the_cure(file):
    file.parent.write_text("a file where the folder should be")
    said: list[str] = []
    campaign(file, Queue(), "mine").begin(said.append, 0.0)
    assert "scancel --me --name=mine" in said[0]


def test_a_run_that_ended_leaves_nothing(file):
    one = campaign(file, Queue(), "first")
    one.begin(print, 0.0)
    one.close()
    assert not file.exists()


def test_a_run_that_sent_nothing_leaves_what_is_there(file):
    began(file, "first", Queue())
    campaign(file, Queue()).close()
    assert json.loads(file.read_text())["runs"] == ["first"]


def test_a_run_cancels_its_jobs_by_name(file):
    queue = Queue(mine="20")
    one = campaign(file, queue, "mine")
    one.begin(print, 0.0)
    assert one.cancel() is None
    assert queue.cancelled == ["--me", "--name=mine"]
