"""Bundles of runs that SLURM made: nobody's cluster is told, and strangers do not decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.records import history
from gemmgrid.report.bundles import pack, unpack
from gemmgrid.report.bundles.command import main
from gemmgrid.report.bundles.layout import BundleError
from gemmgrid.report.bundles.redact import Redactor
from gemmgrid.report.read.collect import collect
from tests.report import synthetic
from tests.report.bundles.test_bundles import CELL, MACHINE, content, whole, write

ELSEWHERE: dict[str, Any] = {
    "flags": ["other-machine"],
    "host": {"id": "7f3a2c9b01de"},
    "promise": {"cpus": 64, "gpu": False, "platform": None, "broken": ["2 may be used"]},
}


def nobody() -> Redactor:
    return Redactor(user="jdoe", host="login1.example.org")


def test_nothing_of_the_cluster_is_in_it(tmp_path: Path) -> None:
    first = whole(
        slurm=synthetic.slurm(
            "mil17.hpc.example.org",
            features=["icelake", "acme_rack7"],
            gres="gpu:acme_special:1",
            unknown={"qos": "account=physics: no"},
        ),
        promise=ELSEWHERE["promise"] | {"broken": ["64 CPUs are promised, 2 may be used"]},
        flags=["other-machine"],
    )
    first["environment"]["variables"] = {"TMPDIR": "/local/mil17/slurm_job_40123/tmp"}
    lost = whole(
        128,
        status="lost",
        reason="NODE_FAIL: SLURM job 99887 on MIL17 ended when the node failed",
        slurm=synthetic.slurm("ice4, ice5", job_id="40124, 40125", cluster=None),
        host={"id": None},
        invocations=[],
    )
    late = whole(256, status="lost", reason="ice5 went down, jobs 40125", invocations=[])
    write(tmp_path / "there", late, lost, first)
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", nobody())
    for name, data in content(tmp_path / "b.zip").items():
        for secret in (
            *("mil17", "ice4", "ice5", "hpc", "example", "short", "physics", "toycluster", "acme"),
            *("40123", "40124", "40125", "99887", 'normal",'),
        ):
            assert secret not in data.decode().lower(), (name, secret)
    unpack.unpack(tmp_path / "b.zip", tmp_path / "here")
    (run,) = history.read(tmp_path / "here" / CELL).runs
    assert run["slurm"] == first["slurm"] | {
        "job_id": "JOB",
        "node": "NODE",
        "partition": "PARTITION",
        "account": "ACCOUNT",
        "cluster": "CLUSTER",
        "qos": "QOS",
        "features": ["icelake", "FEATURE"],
        "gres": "GRES",
        "unknown": {"qos": "(left out of the bundle)"},
    }
    assert run["promise"]["broken"] == ["64 CPUs are promised, 2 may be used"]
    assert run["environment"]["variables"] == {}
    (run,) = history.read(tmp_path / "here" / CELL.replace("64x64x64", "128x128x128")).runs
    assert run["reason"] == "NODE_FAIL: SLURM job … ended when the node failed"
    assert run["slurm"]["cluster"] is None
    (run,) = history.read(tmp_path / "here" / CELL.replace("64x64x64", "256x256x256")).runs
    assert run["reason"] == "(left out of the bundle)"


def test_names_like_everyday_words_spoil_nothing(tmp_path: Path) -> None:
    """A partition `cpu`, an account `ok`, a job 512, a node `gemm`: words of every record."""
    job = synthetic.slurm("gemm", partition="cpu", account="ok", job_id="512", cluster="numpy")
    made = whole(512, reason=None, slurm=job, promise=ELSEWHERE["promise"])
    write(tmp_path / "there", made)
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", nobody())
    assert unpack.unpack(tmp_path / "b.zip", tmp_path / "here").runs == 1
    (path,) = (tmp_path / "here").glob("*/*/*.jsonl")
    (run,) = history.read(path).runs
    kept = made.keys() - {"slurm", "environment", "library"}
    assert {key: run[key] for key in kept} == {key: made[key] for key in kept}
    assert run["environment"] == made["environment"] | {"prefix": "ENVIRONMENT"}
    assert run["slurm"]["partition"] == "PARTITION"
    one, two = collect(tmp_path / "there").cells[0], collect(tmp_path / "here").cells[0]
    assert one["gflops"] == two["gflops"]


def test_identified_bundles_keep_the_cluster(tmp_path: Path) -> None:
    job = synthetic.slurm("mil17")
    write(tmp_path / "there", whole(slurm=job))
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", None)
    unpack.unpack(tmp_path / "b.zip", tmp_path / "here")
    assert history.read(tmp_path / "here" / CELL).runs[0]["slurm"] == job


def test_a_run_of_another_machine_settles_nothing(tmp_path: Path) -> None:
    write(tmp_path, whole(), whole(128, **ELSEWHERE))
    cells = [("numpy-openblas", synthetic.gemm(n), "planned", None) for n in (64, 128)]
    synthetic.write_plan(tmp_path, cells)
    manifest = pack.pack(tmp_path, MACHINE, tmp_path / "b.zip", nobody()).manifest
    assert (manifest["complete"], manifest["planned"], manifest["settled"]) == (False, 2, 1)
    write(tmp_path, whole(128, day=2), whole(128, day=3, status="crashed", **ELSEWHERE))
    manifest = pack.pack(tmp_path, MACHINE, tmp_path / "b.zip", nobody()).manifest
    assert (manifest["complete"], manifest["settled"]) == (True, 2)


def test_it_stays_apart_where_it_is_taken_in(tmp_path: Path) -> None:
    write(tmp_path / "there", whole(), whole(128, **ELSEWHERE))
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", nobody())
    arrived = unpack.unpack(tmp_path / "b.zip", tmp_path / "here", "lab-two")
    assert arrived.notes == [
        "1 of its runs were made on another machine than machine-a: the report shows them apart"
    ]
    found = collect(tmp_path / "here")
    assert [row["n"] for row in found.cells] == [64]
    assert [(one.name, one.cells[0]["n"]) for one in found.foreign] == [("lab-two~7f3a2c", 128)]


def test_a_stranger_does_not_make_two_machines_one(tmp_path: Path) -> None:
    """One run in a bundle was made on the hardware that is here: the others are still refused."""
    here = tmp_path / "here"
    write(here, whole(256, host={"id": "7f3a2c9b01de"}))
    strange = dict(ELSEWHERE, host={"id": "abcdefabcdef"})
    write(here, whole(256, day=2, **strange))
    write(tmp_path / "there", whole(), whole(128, **ELSEWHERE))
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", nobody())
    with pytest.raises(BundleError, match=r"other hardware \(7f3a2c9b01de\).*\(abcdefabcdef\)"):
        unpack.unpack(tmp_path / "b.zip", here)


def test_lost_jobs_without_a_host_do_not_decide_either(tmp_path: Path) -> None:
    lost: dict[str, Any] = {"status": "lost", "host": {"id": None}, "invocations": []}
    here = tmp_path / "here"
    write(here, whole(256, **lost), whole(32))
    write(tmp_path / "there", whole(host={"id": "ffffffffffff"}), whole(128, **lost))
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", nobody())
    with pytest.raises(BundleError, match=r"other hardware \(abcdefabcdef\).*\(ffffffffffff\)"):
        unpack.unpack(tmp_path / "b.zip", here)


def test_a_study_of_several_machines_asks_which_one(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path, whole())
    synthetic.write_machine(tmp_path, synthetic.Machine("milan"))
    plan = synthetic.write_plan(tmp_path, [])
    plan.write_text(json.dumps({"kind": "plan", "machine": "machine-a+milan"}) + "\n")
    assert main(["bundle", "--results", str(tmp_path), "--out", str(tmp_path / "b.zip")]) == 1
    assert "which machine? Found: machine-a, milan" in capsys.readouterr().err
