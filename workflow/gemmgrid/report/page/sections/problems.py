"""Files that could not be used: named, set aside, never touched."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.page.view import View

TITLE = "Problems in files"
MOST = 500


def build(view: View) -> dict[str, Any]:
    problems = view.collection.problems
    return {
        "problems": problems[:MOST],
        "left_out": max(0, len(problems) - MOST),
        "files": len({problem.file for problem in problems}),
        "results": view.collection.results.as_posix(),
    }
