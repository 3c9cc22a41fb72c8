"""Asking SLURM: every way in which a command does not answer is a reason, never an exception."""

from __future__ import annotations

import pytest

from gemmgrid.plan.slurm.ask import ask
from tests.plan.slurm.doubles import command


def test_an_answer_in_english(monkeypatch, tmp_path):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    command(monkeypatch, tmp_path, "scontrol", 'echo "$LC_ALL $2"; echo noise >&2')
    answer = ask("scontrol", "show", "a b")
    assert (answer.text, answer.reason) == ("C a b\n", None)


def test_bytes_that_are_no_text_do_not_raise(monkeypatch, tmp_path):
    command(monkeypatch, tmp_path, "scontrol", r"printf 'Reason=\377'")
    assert ask("scontrol").text == "Reason=�"


def test_it_reads_nothing_from_the_terminal(monkeypatch, tmp_path):
    command(monkeypatch, tmp_path, "scontrol", "cat")
    assert ask("scontrol").text == ""


def test_not_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = ask("sinfo", "-h")
    assert answer.text is None
    assert answer.reason == "'sinfo' is not installed here (not found in PATH)"


def test_too_slow(monkeypatch, tmp_path):
    command(monkeypatch, tmp_path, "sacctmgr", "exec sleep 60")
    answer = ask("sacctmgr", "-n", limit_s=0.2)
    assert answer.text is None
    assert answer.reason == "'sacctmgr -n' did not answer within 0.2 s"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "echo retrying >&2; echo 'slurm_load_node error: Unable to contact' >&2; exit 1",
            "exit code 1: slurm_load_node error: Unable to contact",
        ),
        ("exit 3", "exit code 3: it said nothing on standard error"),
        ("kill -9 $$", "exit code -9: it said nothing on standard error"),
    ],
)
def test_it_fails(monkeypatch, tmp_path, body, said):
    command(monkeypatch, tmp_path, "scontrol", body)
    answer = ask("scontrol", "show", "node")
    assert answer.text is None
    assert answer.reason == f"'scontrol show node' ended with {said}"


def test_it_cannot_be_run(monkeypatch, tmp_path):
    command(monkeypatch, tmp_path, "scontrol", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "scontrol").write_bytes(b"\x7fELF of another machine")
    answer = ask("scontrol")
    assert answer.text is None
    assert answer.reason is not None
    assert answer.reason.startswith("'scontrol' cannot be run: ")
