"""What `sbatch --test-only` is asked, and which of its answers (22.05's) are refusals."""

from __future__ import annotations

import shlex
from types import SimpleNamespace

import pytest
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.utils import set_gres_string

from gemmgrid.plan.slurm.ask import Answer
from gemmgrid.plan.slurm.trial import problem, request
from tests.plan.slurm.doubles import command

FULL = """
h200: {partition: gpu, constraint: 'milan&ib', gres: 'gpu:h200:1', account: physics, qos: long,
       cpus: 64, exclusive: false}
ice: {partition: cpu, cpus: 64}
any: {}
"""


def test_the_words_of_sbatch(entry):
    machines = entry(FULL)
    assert request(machines["h200"], 150, 8000) == [
        *("--partition=gpu", "--constraint=milan&ib", "--gres=gpu:h200:1", "--account=physics"),
        *("--qos=long", "--cpus-per-task=64", "--time=150", "--mem=8000"),
    ]
    assert request(machines["ice"], 10, 1900) == [
        *("--partition=cpu", "--cpus-per-task=64", "--time=10", "--mem=1900", "--ntasks=1"),
        "--exclusive",
    ]
    assert request(machines["any"], 10, 1900) == [
        *("--time=10", "--mem=1900", "--ntasks=1", "--exclusive")
    ]


class Resources(dict):
    """A test double of a job's resources: a mapping with attributes, as Snakemake's."""

    __getattr__ = dict.__getitem__


@pytest.mark.parametrize("name", ["h200", "ice"])
def test_the_plugin_asks_for_the_same(entry, name):
    machine = entry(FULL)[name]
    asked = {
        "slurm_partition": machine.partition,
        "constraint": machine.constraint,
        "gres": machine.gres,
        "slurm_account": machine.account,
        "qos": machine.qos,
        "slurm_extra": "--exclusive" if machine.exclusive else None,
        "mem_mb": 8000,
        "runtime": 150,
    }
    resources = Resources({key: value for key, value in asked.items() if value is not None})
    job = SimpleNamespace(resources=resources, threads=machine.cpus, is_group=lambda: False)
    account = f"-A {machine.account}" if machine.account else ""
    words = {"run_uuid": "u", "slurm_logfile": "l", "comment_str": "c", "workdir": None}
    words |= {"account": account, "partition": f"-p {machine.partition}"}
    sent = shlex.split(get_submit_command(job, words) + set_gres_string(job))
    long = {"-p": "--partition", "-C": "--constraint", "-A": "--account", "-t": "--time"}
    joined = [
        f"{long.get(word, word)}={following}" if word in (*long, "--mem") else word
        for word, following in zip(sent, [*sent[1:], ""], strict=True)
    ]
    assert set(request(machine, 150, 8000)) <= set(joined)


def asking(answer, asked=None):
    def ask(*words, **more):
        if asked is not None:
            asked.append(words)
        return answer

    return ask


def test_what_slurm_would_take_is_no_problem(entry):
    asked: list = []
    fine = asking(Answer(""), asked)
    assert problem(entry(FULL)["ice"], 10, 1900, asking=fine) is None
    assert asked[0][:2] == ("sbatch", "--test-only")
    assert asked[0][-1] == "--wrap=true"


@pytest.mark.parametrize(
    "said",
    [
        "Invalid partition name specified",
        "Invalid feature specification",
        "Requested node configuration is not available",
    ],
)
def test_a_refusal_is_told_with_the_command_to_repeat(entry, monkeypatch, tmp_path, said):
    body = f"echo 'sbatch: error: something' >&2; echo 'allocation failure: {said}' >&2; exit 1"
    command(monkeypatch, tmp_path, "sbatch", body)
    assert problem(entry(FULL)["h200"], 150, 8000) == (
        f"config/machines.yaml, h200: SLURM refuses such an allocation: {said} "
        "(sbatch --test-only --partition=gpu '--constraint=milan&ib' --gres=gpu:h200:1 "
        "--account=physics --qos=long --cpus-per-task=64 --time=150 --mem=8000)"
    )


@pytest.mark.parametrize(
    "body",
    [
        "echo 'allocation failure: Unable to contact slurm controller (connect failure)' >&2;"
        " exit 1",
        "echo 'sbatch: error: fetch_config: DNS SRV lookup failed' >&2;"
        " echo 'sbatch: fatal: Could not establish a configuration source' >&2; exit 1",
        "echo 'allocation failure: Socket timed out on send/recv operation' >&2; exit 1",
    ],
)
def test_a_controller_that_is_away_refuses_nothing(entry, monkeypatch, tmp_path, body):
    command(monkeypatch, tmp_path, "sbatch", body)
    assert problem(entry(FULL)["ice"], 10, 1900) is None


def test_without_sbatch_and_without_an_answer_nothing_is_refused(entry):
    machine = entry(FULL)["ice"]
    for reason in (
        "'sbatch' is not installed here (not found in PATH)",
        "'sbatch --test-only' did not answer within 20 s",
    ):
        assert problem(machine, 10, 1900, asking=asking(Answer(None, reason))) is None


def test_what_the_command_line_adds_is_asked_too(entry):
    asked: list[tuple[str, ...]] = []

    def fine(*words: str, **_: object) -> Answer:
        asked.append(words)
        return Answer("")

    machine = entry("ice: {partition: cpu, cpus: 2}")["ice"]
    assert problem(machine, 10, 1900, ["--qos=fast", "--reservation=mine"], asking=fine) is None
    assert {"--qos=fast", "--reservation=mine", "--partition=cpu"} <= set(asked[0])
