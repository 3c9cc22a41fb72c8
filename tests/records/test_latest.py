"""The beginning of the newest run, and the stamp of all results."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gemmgrid.records import latest, stamp
from gemmgrid.records.cell import Cell
from gemmgrid.records.context import digest
from gemmgrid.records.latest import beginning, spec_digest

RUN = {
    **{"schema": 1, "id": "one", "started_at": "2026", "machine": "here", "backend": "b"},
    **{"cell": Cell.parse("gemm.float32.8x8x8.t1").to_json(), "status": "ok", "flags": []},
    **{"spec": "abc", "context": {"backend": {}}, "invocations": [{"samples": [1] * 50}]},
}


def lines(*runs: dict, separators: tuple[str, str] = (",", ":")) -> bytes:
    return b"".join(json.dumps(run, separators=separators).encode() + b"\n" for run in runs)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("block", [7, 100, 1 << 16])
def test_only_the_newest_and_only_its_beginning(tmp_path, monkeypatch, separators, block):
    monkeypatch.setattr(latest, "BLOCK", block)
    path = tmp_path / "cell.jsonl"
    path.write_bytes(lines({**RUN, "id": "zero"}, RUN, separators=separators))
    found = beginning(path)
    assert found is not None and (found["id"], found["spec"]) == ("one", "abc")
    assert "invocations" not in found


def test_a_run_without_a_spec_is_read_to_its_context(tmp_path):
    path = tmp_path / "cell.jsonl"
    path.write_bytes(lines({key: value for key, value in RUN.items() if key != "spec"}))
    found = beginning(path)
    assert found is not None and found["context"] == {"backend": {}}
    assert "invocations" not in found


def test_keys_in_another_order_are_found(tmp_path):
    path = tmp_path / "cell.jsonl"
    path.write_bytes(lines(dict(sorted(RUN.items(), reverse=True))))
    found = beginning(path)
    assert found is not None and (found["id"], found["status"]) == ("one", "ok")


@pytest.mark.parametrize(
    "rest", [b"", b"\n\n", b'{"torn', b"[]\n", b"\xff\xfe\n", b"{}\n", b"7\n", b'{"id" 3}\n']
)
def test_a_last_line_that_is_no_run_is_passed_over(tmp_path, rest):
    path = tmp_path / "cell.jsonl"
    path.write_bytes(lines(RUN) + rest)
    found = beginning(path)
    assert found is not None and found["id"] == "one"


@pytest.mark.parametrize("content", [b"", b"\n", b"{", b"nothing\n"])
def test_without_a_run_there_is_none(tmp_path, content):
    path = tmp_path / "cell.jsonl"
    path.write_bytes(content)
    assert beginning(path) is None
    assert beginning(tmp_path / "missing.jsonl") is None


def test_the_digest_of_a_text_is_that_of_its_document():
    document = {"b": [1, 2.5], "a": {"cell": RUN["cell"]}, "é": "ü"}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert spec_digest(text) == digest(document)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for name in (
        "here/numpy/a.jsonl",
        "here/numpy/b.jsonl",
        "here/machine.json",
        ".plan/x/y.jsonl",
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name}\n" * 50)
    return tmp_path


def test_a_stamp_changes_with_what_tables_are_made_of(results):
    seen = [stamp.stamp(results, "plan")]
    for change in (
        lambda: (results / "here/numpy/a.jsonl").open("a").write("more\n"),
        lambda: (results / "here/numpy/b.jsonl").rename(results / "here/numpy/c.jsonl"),
        (results / "here/numpy/c.jsonl").unlink,
        lambda: (results / "here/machine.json").write_text("{}"),
        lambda: (results / "here/machine.json").write_text("[]"),
    ):
        change()
        seen.append(stamp.stamp(results, "plan"))
    assert len(set(seen)) == len(seen)
    assert stamp.stamp(results, "another plan") not in seen


def test_times_and_our_own_files_are_no_change(results):
    before = stamp.stamp(results, "plan")
    os.utime(results / "here/numpy/a.jsonl", (1, 1))
    (results / ".plan/x/y.jsonl").write_text("")
    assert stamp.stamp(results, "plan") == before
    assert stamp.main(["--results", str(results), "--plan", "plan", "--out", f"{results}/s"]) == 0
    assert stamp.read(results / "s") == before
    assert stamp.read(results / "none") is None
