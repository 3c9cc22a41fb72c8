"""What the study found: its answer in sentences, and the table that they rest on."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.lesson.answers import answer
from gemmgrid.report.page.view import View

TITLE = "The answer"


def build(view: View) -> dict[str, Any]:
    return {"answer": answer(view.collection)}
