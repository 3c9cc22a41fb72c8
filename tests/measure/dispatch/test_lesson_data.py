"""The lesson's lines as data: each can be matched against what the tracers name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.measure.interpreters import ROOT

FILE = ROOT / "workflow" / "gemmgrid" / "report/lesson/lesson.json"
LINES = {line["id"]: line for line in json.loads(FILE.read_text(encoding="utf-8"))["lines"]}


def agrees(line: dict[str, Any], dtype: str, name: str) -> bool:
    return re.fullmatch(line["pattern"][dtype], name, re.IGNORECASE) is not None


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_a_line_is_complete(line: dict[str, Any]) -> None:
    told = {"id", "expression", "says", "where", "way", "match", "claims", "pattern", "note"}
    assert set(line) == told
    assert set(line["claims"]) == set(line["pattern"]) == set(line["match"]["dtype"])
    for dtype, claimed in line["claims"].items():
        assert agrees(line, dtype, claimed)


@pytest.mark.parametrize(
    ("name", "fits"),
    [("scipy_cblas_sgemm64_", True), ("sgemm_", True), ("cblas_sgemm", True), ("sgemm_64_", True),
     ("cblas_sgemm$NEWLAPACK$ILP64", True), ("scipy_cblas_ssyrk64_", False), ("sgemv_", False),
     ("cblas_dgemm", False), ("cblas_sgemm_batch", False)],
)  # fmt: skip
def test_names_of_every_library_are_told_apart(name: str, fits: bool) -> None:
    assert agrees(LINES["numpy-gemm"], "float32", name) is fits


def test_gpu_names() -> None:
    assert agrees(LINES["torch-cuda-float32"], "float32", "cublasSgemm_v2")
    assert not agrees(LINES["torch-cuda-float32"], "float32", "cublasLtMatmul")
    assert not agrees(LINES["torch-mps"], "float32", "MPSGraph matrixMultiplication")
