"""What a node is like now, asked by a job on it, and measuring again what has changed."""

from __future__ import annotations

import json

KERNEL = "1.2.3-before"


def test_a_node_is_asked_and_what_has_changed_is_measured_again(cluster, project):
    project.snakemake()
    name = "numpy-openblas/gemm.float32.32x32x32.t1"
    file = project.folder / f"results/icelake/{name}.jsonl"
    run = json.loads(file.read_text())
    here = run["context"]["host"]["kernel"]
    run["context"]["host"]["kernel"] = KERNEL
    file.write_text(json.dumps(run) + "\n")

    output = project.snakemake("stale")
    assert f"kernel: {KERNEL} → {here}" in output
    answer = json.loads((project.folder / "results/.plan/now/icelake.json").read_text())
    assert answer["machine"] == "icelake"

    output = project.snakemake("refresh")
    assert "1 cell of icelake sent as SLURM job" in output
    assert project.counts_of("icelake") == {name: 2, name.replace("32x32x32", "48x48x48"): 1}
