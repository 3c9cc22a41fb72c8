"""What leaves a machine in a bundle: what is known to be harmless, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gemmgrid.records import history
from gemmgrid.report.bundles import pack, unpack
from gemmgrid.report.bundles.known_texts import LEFT_OUT, known_part
from gemmgrid.report.bundles.redact import Redactor
from tests.report import synthetic
from tests.report.bundles.test_bundles import CELL, HOME, MACHINE, NOBODY, content, whole, write

SECRETS = (
    *("jdoe", "node17", "anna", "/home/", "/Users/", "/scratch", "hunter2", "acme", "8f3c2b1a"),
    *("40123", "smith", "10.1.2.3", "physics"),
)
UUID = "GPU-8f3c2b1a-1111-2222-3333-444455556666"
FAILURE = {"stage": "sample", "exit_code": 1, "signal": "SIGSEGV"}


def spoiled() -> dict[str, Any]:
    """A run with something of its maker wherever a text may stand."""
    run = whole(
        status="crashed",
        reason="uv: failed to fetch https://jdoe:hunter2@pypi.acme.com/simple/numpy/",
        failure=FAILURE
        | {"stderr_tail": "File '/home/jdoe/x.py' on node17: ssh jdoe@node17.acme.org /Users/anna"},
        expression="np.matmul(A, B, out=C)",
        gpu={"id": UUID, "name": "NVIDIA H200", "driver": "580.1"},
        unknown={"gpu": "nvml: jdoe may not ask node17 at 10.1.2.3", "jdoe": "acme"},
    )
    shell = {
        "JAX_URL": "https://user:hunter2@acme.com",
        "TORCH_PASSPHRASE": "hunter2",
        "TORCH_ACME_40123": "1",
        "LD_LIBRARY_PATH": "/scratch/jdoe_lab/lib",
        "CUDA_VISIBLE_DEVICES": UUID,
        "NVIDIA_VISIBLE_DEVICES": "0,1",
        "OMP_PROC_BIND": "close",
        "OMP_PLACES": "{0:4},{4:4}",
        "OPENBLAS_CORETYPE": "hunter2",
        "MKL_NUM_THREADS": "8",
    }
    run["environment"] |= {
        "variables": shell,
        "dropped_variables": shell,
        "packages": [
            {"name": "numpy", "version": "2.4.6", "build": None, "channel": "https://acme.com/t/tk"}
        ],
    }
    backend = run["context"]["backend"]
    backend["variables"] = shell
    backend["packages"] = {
        "numpy": "2.4.6 cp311-cp311-manylinux_2_27_x86_64",
        "own @ https://acme.com": "1",
        "own": "1 @ https://hunter2@acme.com",
        UUID: "1",
    }
    backend["options"] = {"index": "https://acme.com", "jdoe": "physics"}
    run["context"]["host"] = {"kernel": "Linux 6.1-jdoe", "hostname": "node17", "os": "Debian 12"}
    run["library"]["file"] = "/scratch/jdoe_lab/blas/libopenblas.so.0"
    run["library"]["others"] = ["/usr/lib/x86_64-linux-gnu/libblas.so.3", "/home/anna/acme.bin"]
    run["evidence"] = synthetic.evidence("sgemm", "sgemm_kernel_SKYLAKEX") | {
        "problems": {"/scratch/jdoe/lib/libmkl_rt.so": "cannot be read: /scratch/jdoe"},
        "reason": "smith: the process ended while sampling",
    }
    run["settings"]["note"] = "ask smith"
    run["tool"] |= {"commit": "of smith", "version": "smith"}
    first = run["invocations"][0]
    first["flags"] = ["noisy", "acme"]
    first["stdout_tail"] = "welcome to acme, jdoe"
    first["identity"] = {"python": "3.11.7", "prefix": "/home/jdoe/env", "user": "smith"}
    return run


def packed(tmp_path: Path, *runs: dict[str, Any], redactor: Redactor | None = NOBODY) -> Path:
    write(tmp_path / "there", *runs)
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", redactor)
    return tmp_path / "b.zip"


def test_nothing_identifying_is_in_it(tmp_path: Path) -> None:
    bundle = packed(tmp_path, spoiled())
    files = content(bundle)
    assert CELL in files
    for name, data in files.items():
        for secret in SECRETS:
            assert secret.encode() not in data, (name, secret)
    unpack.unpack(bundle, tmp_path / "here")
    (run,) = history.read(tmp_path / "here" / CELL).runs
    assert run["environment"]["dropped_variables"] == {
        "LD_LIBRARY_PATH": "(not told)",
        "CUDA_VISIBLE_DEVICES": "(not told)",
        "NVIDIA_VISIBLE_DEVICES": "0,1",
        "OMP_PROC_BIND": "close",
        "OMP_PLACES": "{0:4},{4:4}",
        "OPENBLAS_CORETYPE": "(not told)",
        "MKL_NUM_THREADS": "8",
    }
    assert run["context"]["backend"]["packages"]["numpy"] == (
        "2.4.6 cp311-cp311-manylinux_2_27_x86_64"
    )
    assert run["context"]["host"] == {"kernel": "Linux 6.1-USER", "os": "Debian 12"}
    assert run["library"]["file"] == "…/libopenblas.so.0"
    assert run["library"]["others"] == ["/usr/lib/x86_64-linux-gnu/libblas.so.3", "…"]
    assert run["evidence"]["kernels"][0]["name"] == "sgemm_kernel_SKYLAKEX"
    assert run["evidence"]["reason"] == "…: the process ended while sampling"
    assert run["gpu"] == {"id": "…", "name": "NVIDIA H200", "driver": "580.1"}
    assert run["failure"] == FAILURE | {"stderr_tail": LEFT_OUT}
    assert run["invocations"][0]["flags"] == ["noisy"]


def test_what_a_run_measured_and_ran_with_stays(tmp_path: Path) -> None:
    made = whole()
    bundle = packed(tmp_path, made)
    unpack.unpack(bundle, tmp_path / "here")
    (run,) = history.read(tmp_path / "here" / CELL).runs
    environment = made["environment"] | {"prefix": "ENVIRONMENT"}
    library = made["library"] | {"file": "ENVIRONMENT/lib/libopenblas.so"}
    assert run == made | {"environment": environment, "library": library}


def test_what_was_redacted_is_redacted_no_further(tmp_path: Path) -> None:
    """Who passes a bundle on passes on the same."""
    first = packed(tmp_path, spoiled(), whole(128))
    unpack.unpack(first, tmp_path / "here")
    again = pack.pack(tmp_path / "here", MACHINE, tmp_path / "again.zip", NOBODY)
    assert again.left_out == []
    assert (tmp_path / "again.zip").read_bytes() == first.read_bytes()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("the process died of SIGILL while sampling",) * 2,
        ("64 CPUs are promised, 2 may be used",) * 2,
        (
            "CANCELLED: SLURM job 40123 on ice1 was cancelled by jdoe",
            "CANCELLED: SLURM job … was cancelled …",
        ),
        (
            "TIMEOUT: SLURM job 12 on 7 reached its time limit of 2 minutes",
            "TIMEOUT: SLURM job … reached its time limit of 2 minutes",
        ),
        ("there is no Python at /home/jdoe/bin/python", "there is no Python at …"),
        ("ended by SIGSEGV (stage: start)",) * 2,
        ("cancelled by 1000", LEFT_OUT),
        ("cancelled by mark", LEFT_OUT),
        ("https://user:password@index.example.com", LEFT_OUT),
        ("ImportError: /scratch/jdoe_lab/x.so", "ImportError: …"),
        ("ok",) * 2,
        ("",) * 2,
    ],
)
def test_known_phrases_stay_and_what_is_between_goes(text: str, told: str) -> None:
    assert known_part(text) == told
    assert known_part(told) == told


def test_who_and_where_only_when_asked_for(tmp_path: Path) -> None:
    made = spoiled()
    write(tmp_path / "there", made)
    done = pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", None)
    assert done.manifest["identity"]["user"]
    assert HOME.encode() in content(tmp_path / "b.zip")[CELL]
    unpack.unpack(tmp_path / "b.zip", tmp_path / "here")
    assert history.read(tmp_path / "here" / CELL).runs == [made]
    assert (
        pack.pack(tmp_path / "there", MACHINE, tmp_path / "c.zip", NOBODY).manifest["identity"]
        is None
    )


def test_a_user_called_like_hardware_spoils_no_name(tmp_path: Path) -> None:
    bundle = packed(tmp_path, whole(), redactor=Redactor(user="machine", host="gemm"))
    assert unpack.unpack(bundle, tmp_path / "here").runs == 1


def test_a_long_line_of_words_is_no_riddle() -> None:
    """A hostile text costs time in proportion to its length."""
    text = "the process the process of the " * 3000
    assert known_part(text)
