"""Whether a run belongs to the machine whose name it carries, and who writes machine.json."""

from __future__ import annotations

import copy
import errno
import json
import threading
from pathlib import Path

import pytest

from gemmgrid.measure import machine
from gemmgrid.measure.host import gpu
from gemmgrid.measure.machine import this_machine
from gemmgrid.measure.machine.this_machine import ThisMachine, UnreadableError
from gemmgrid.measure.peaks import peaks
from gemmgrid.measure.supervise.environment import measured_environment
from tests.measure import machine_trees as trees
from tests.measure.host.test_gpu import UUIDS, h200

H200 = {"name": "NVIDIA H200", "memory_bytes": 150 << 30, "driver": "580.1"}
A100 = {"name": "NVIDIA A100", "memory_bytes": 80 << 30, "driver": "580.1"}


@pytest.fixture(autouse=True)
def at_home_and_in_haste(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(this_machine, "PAUSES_S", (0.0, 0.0))


@pytest.fixture
def at(tmp_path, monkeypatch):
    """ThisMachine of a process on recorded hardware."""
    monkeypatch.setattr(
        this_machine, "_visible_gpu", lambda device, _: None if device == "cpu" else 0
    )
    intel = machine.facts(trees.sapphire_rapids(tmp_path / "intel"), "x86_64")
    amd = machine.facts(trees.rome(tmp_path / "amd"), "x86_64")

    def look(kind="intel", device="cpu", gpus=None, **changed):
        facts = copy.deepcopy(intel if kind == "intel" else amd) | changed
        facts["gpus"] = gpus or []
        facts["peaks"] = peaks.table(facts)
        monkeypatch.setattr(machine, "facts", lambda: facts)
        return ThisMachine(device)

    return look


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0"}, "NVIDIA A100"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "NVIDIA H200"),
        ({"CUDA_VISIBLE_DEVICES": UUIDS[1]}, "NVIDIA H200"),
        ({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, None),
    ],
)
def test_the_gpu_is_the_one_that_the_measured_process_sees(monkeypatch, variables, name):
    """As the registry's variables and the user's shell say, whatever the supervisor itself has."""
    double = h200(nvmlDeviceGetName=lambda handle: ("NVIDIA A100", "NVIDIA H200")[handle])
    monkeypatch.setattr(gpu, "connect", lambda: (double, ""))
    env = measured_environment(1, "cuda", variables, {"CUDA_VISIBLE_DEVICES": "0"}).env
    here = ThisMachine("cuda", env)
    assert (here.gpu or {}).get("name") == name
    assert (here.context["device"]["driver"] is None) == (name is None)
    assert here.gpu_memory_bytes == (150754820096 if name else None)
    assert (here.cache_bytes == 60 << 20) == (name == "NVIDIA H200")


def test_a_part_of_a_gpu_has_not_all_of_its_memory(at):
    assert at(device="cuda", gpus=[H200 | {"mig": ["1g.18gb"]}]).gpu_memory_bytes is None
    assert at(device="cuda", gpus=[H200]).gpu_memory_bytes == 150 << 30


def test_all_caches_count(at):
    """Eight dies with 16 MiB each, and their cores' own: what `.cold` operands must outgrow."""
    cpu = {
        "caches": [
            {"level": 1, "type": "data", "size_bytes": 32 << 10, "shared_by": 2, "count": 64},
            {"level": 2, "type": "unified", "size_bytes": 1 << 20, "shared_by": 2, "count": 64},
            {"level": 3, "type": "unified", "size_bytes": 16 << 20, "shared_by": 16, "count": 8},
        ]
    }
    assert at(cpu=cpu).cache_bytes == (64 + 8 * 16) << 20
    assert at(cpu={"caches": None}).cache_bytes is None


def test_without_a_file_everybody_belongs(at, tmp_path):
    assert at().stranger_to(tmp_path / "results/ice") is None


def test_the_first_run_writes_the_file(at, tmp_path):
    folder = tmp_path / "results/ice"
    here = at()
    assert here.write(folder) is None
    assert json.loads((folder / "machine.json").read_text()) == here.facts
    assert [file.name for file in folder.iterdir()] == ["machine.json"]


def test_the_same_hardware_belongs_and_brings_the_file_up_to_date(at, tmp_path):
    path = tmp_path / "machine.json"
    at().write(tmp_path)
    before = path.stat()
    assert at(recorded_at="later").write(tmp_path) is None
    assert path.stat().st_ino == before.st_ino  # the time alone is no news
    again = at(kernel="6.9.0")
    assert again.stranger_to(tmp_path) is None
    assert again.write(tmp_path) is None
    assert json.loads(path.read_text())["kernel"] == "6.9.0"


def test_fewer_gpus_built_in_is_other_hardware(at, tmp_path):
    two = ["0x10de:0x2335"] * 2
    at(cards=None).write(tmp_path)
    assert at(cards=two).write(tmp_path) is None  # an older file fits, and is completed
    assert json.loads((tmp_path / "machine.json").read_text())["cards"] == two
    assert "other hardware" in at(cards=two[:1]).write(tmp_path)


def test_other_hardware_is_a_stranger_and_leaves_the_file_alone(at, tmp_path):
    path = tmp_path / "machine.json"
    at("intel").write(tmp_path)
    content = path.read_bytes()
    here = at("amd")
    reason = f"this is other hardware than {path} describes"
    assert here.stranger_to(tmp_path) == reason
    assert here.write(tmp_path) == reason
    assert path.read_bytes() == content


def test_another_gpu_is_other_hardware_for_a_gpu_cell(at, tmp_path):
    at(device="cuda", gpus=[H200]).write(tmp_path)
    assert at(device="cuda", gpus=[H200]).stranger_to(tmp_path) is None
    assert at(device="cuda", gpus=[A100]).stranger_to(tmp_path)
    assert at(device="cpu", gpus=[A100]).stranger_to(tmp_path) is None


def test_a_gpu_where_none_was_known_is_none_of_another_kind(at, tmp_path):
    at().write(tmp_path)
    assert at(device="cuda", gpus=[H200]).write(tmp_path) is None
    assert json.loads((tmp_path / "machine.json").read_text())["gpus"] == [H200]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[]", b"7", b"null", b'{"cpu": 7}', b"[" * 10**5]
)
def test_a_file_that_cannot_be_read_is_said_and_left_alone(at, tmp_path, content):
    path = tmp_path / "machine.json"
    path.write_bytes(content)
    here = at()
    for ask in (here.stranger_to, here.write):
        with pytest.raises(UnreadableError) as told:
            ask(tmp_path)
        assert str(told.value).startswith(f"{path} cannot be read: ")
    assert path.read_bytes() == content


def flaky(monkeypatch, path: Path, *answers: bytes | OSError) -> list[bytes | OSError]:
    """A test double of a network file system: the first readings of a file give these."""
    left, read = list(answers), this_machine.read_regular

    def read_regular(asked: Path) -> bytes:
        if asked == path and left:
            answer = left.pop(0)
            if isinstance(answer, OSError):
                raise answer
            return answer
        return read(asked)

    monkeypatch.setattr(this_machine, "read_regular", read_regular)
    return left


@pytest.mark.parametrize(
    "answer",
    [OSError(errno.ESTALE, "stale"), OSError(errno.EIO, "broken"), b"", b'{"schema": 1, "cp'],
)
def test_what_cannot_be_read_at_first_is_read_again(at, tmp_path, monkeypatch, answer):
    path = tmp_path / "machine.json"
    at("amd").write(tmp_path)
    content, here = path.read_bytes(), at("intel")
    for ask in (here.stranger_to, here.write):
        left = flaky(monkeypatch, path, answer, answer)
        assert "other hardware" in ask(tmp_path)
        assert left == []
        monkeypatch.undo()
        monkeypatch.setattr(this_machine, "PAUSES_S", (0.0, 0.0))
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("answer", "tries"),
    [(OSError(errno.ESTALE, "stale"), 3), (PermissionError(errno.EACCES, "denied"), 1), (b"{", 3)],
)
def test_what_stays_unreadable_is_said(at, tmp_path, monkeypatch, answer, tries):
    at().write(tmp_path)
    here = at()
    left = flaky(monkeypatch, tmp_path / "machine.json", *[answer] * 3)
    with pytest.raises(UnreadableError, match="cannot be read"):
        here.write(tmp_path)
    assert len(left) == 3 - tries


@pytest.fixture
def in_job(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")


def written(folder: Path) -> tuple[int, dict]:
    path = folder / "machine.json"
    return path.stat().st_ino, json.loads(path.read_text())


def test_equal_nodes_do_not_write_over_each_other(at, tmp_path, in_job):
    cpu = at().facts["cpu"]
    nodes = [
        at(),
        at(memory_bytes=at().facts["memory_bytes"] - 8192, kernel="6.9.0", container="docker"),
        at(cpu=cpu | {"microcode": "0x1", "base_mhz": 2399.9, "logical": cpu["cores"]}),
        at(recorded_at="later", os=None, unknown={"os": "cannot be told"}),
    ]
    nodes[0].write(tmp_path)
    before = written(tmp_path)
    for node in nodes * 2:
        assert node.stranger_to(tmp_path) is None
        assert node.write(tmp_path) is None
        assert written(tmp_path) == before


def test_what_a_node_could_not_tell_another_one_adds(at, tmp_path, in_job):
    facts = at().facts
    silent = at(
        cpu=facts["cpu"] | {"microcode": None, "max_mhz": None},
        kernel=None,
        unknown={"cpu.microcode": "who knows", "cpu.max_mhz": "who knows", "kernel": "who knows"},
    )
    silent.write(tmp_path)
    others = [at(kernel="6.9.0"), at(cpu=facts["cpu"] | {"microcode": "0x1", "max_mhz": None})]
    for node in others:
        node.write(tmp_path)
    content = written(tmp_path)
    assert content[1]["kernel"] == "6.9.0"
    assert content[1]["cpu"] == facts["cpu"]
    assert content[1]["peaks"] == peaks.table(content[1]) == facts["peaks"]
    assert content[1]["unknown"] == {
        key: why for key, why in facts["unknown"].items() if not key.startswith("cpu.m")
    }
    assert content[1].keys() == facts.keys()
    for node in (silent, *others):
        node.write(tmp_path)
    assert written(tmp_path) == content


def test_a_key_of_a_newer_version_is_added(at, tmp_path, in_job):
    at().write(tmp_path)
    at(schema=2, news=[1]).write(tmp_path)
    assert written(tmp_path)[1] == {**at().facts, "schema": 2, "news": [1]}


def test_gpus_that_a_job_was_not_given_are_not_forgotten(at, tmp_path, in_job):
    none, one, two = (at(gpus=[H200] * count) for count in range(3))
    other = at(gpus=[A100] * 3)
    silent = at(gpus=[H200 | {"driver": None, "unknown": {"driver": "who knows"}}])
    for node, gpus in (
        (none, []),
        (silent, silent.facts["gpus"]),
        (one, [H200 | {"unknown": {}}]),
        (two, [H200 | {"unknown": {}}, H200]),
    ):
        node.write(tmp_path)
        assert written(tmp_path)[1]["gpus"] == gpus
    content = written(tmp_path)
    assert content[1]["peaks"] == two.facts["peaks"]
    for node in (none, silent, one, two, other):
        assert node.write(tmp_path) is None
        assert written(tmp_path) == content


@pytest.mark.parametrize("odd", [{"gpus": 7}, {"gpus": [H200, 7]}, {"unknown": [7]}])
def test_facts_of_odd_types_are_left_alone(at, tmp_path, in_job, odd):
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(at().facts | odd))
    content = path.read_bytes()
    with pytest.raises(UnreadableError):
        at(gpus=[H200]).write(tmp_path)
    assert path.read_bytes() == content


def test_of_two_nodes_that_come_first_at_once_one_is_the_machine(at, tmp_path):
    nodes = [at("intel"), at("amd")] * 4
    told: list[str | None] = []
    start = threading.Barrier(len(nodes))

    def write(node):
        start.wait()
        told.append(node.write(tmp_path))

    threads = [threading.Thread(target=write, args=[node]) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = json.loads((tmp_path / "machine.json").read_text())
    assert written in [node.facts for node in nodes[:2]]
    other = f"this is other hardware than {tmp_path / 'machine.json'} describes"
    assert sorted(told, key=str) == [None] * 4 + [other] * 4
