"""Products watched in real environments, and short ways to ask the evidence about them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.measure.interpreters import interpreter, variables

SCRIPT = Path(__file__).with_name("watch_rows.py")
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass
class Seen:
    """The evidence of one product."""

    record: dict[str, Any]

    @property
    def routine(self) -> dict[str, Any]:
        assert self.record["routines"], self.record
        first: dict[str, Any] = self.record["routines"][0]
        return first

    @property
    def kernel(self) -> dict[str, Any]:
        first: dict[str, Any] = self.record["kernels"][0]
        return first

    @property
    def hidden(self) -> dict[str, dict[str, Any]]:
        return {work["what"]: work for work in self.record["hidden"]}

    def is_traced(self, name: str, count: int = 1) -> dict[str, Any]:
        """Assert that this routine was called so often; its arguments."""
        assert self.routine["evidence"] == "traced", self.record
        assert self.routine["routine"] == name, self.record
        assert self.routine["count"] == count, self.record
        arguments: dict[str, Any] = self.routine["args"]
        return arguments

    def is_no_blas(self) -> str:
        """Assert that it is proved that no BLAS ran; the function that did the work."""
        assert self.record["routines"] == [], self.record
        proof = self.record["no_blas"]
        assert proof, self.record
        assert proof["slots_watched"] > 0
        assert proof["share"] >= 0.05
        function: str = proof["function"]
        return function


@dataclass
class Answer:
    """The evidence of several products of one process."""

    seen: dict[str, Seen]
    cores: list[str]

    def __getitem__(self, label: str) -> Seen:
        return self.seen[label]


def watch(
    environment: str, adapter: str, setup: str, rows: list[dict[str, Any]], **more: str
) -> Answer:
    """Watch the rows in one process of the environment, on one thread unless `more` says so."""
    request = {"adapter": adapter, "setup": setup, "rows": rows}
    done = subprocess.run(
        [str(interpreter(environment)), "-s", str(SCRIPT)],
        input=json.dumps(request),
        env={**variables(), **ONE_THREAD, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        pytest.fail(f"{environment}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    seen = {label: Seen(record) for label, record in answer["evidence"].items()}
    return Answer(seen, answer["core"])


def row(code: str, routine: str = "gemm", **more: Any) -> dict[str, Any]:
    """A row whose label is its code."""
    return {"label": code, "code": code, "routine": routine, **more}
