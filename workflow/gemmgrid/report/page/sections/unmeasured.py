"""What was not measured, why, and the command that tries again."""

from __future__ import annotations

from typing import Any

from gemmgrid.records.run import STATUSES
from gemmgrid.report.page.view import View
from gemmgrid.report.read.coverage import Group, groups

TITLE = "Not measured, and why"
MOST_COMMANDS = 40
MOST_GROUPS = 60


def build(view: View) -> dict[str, Any]:
    found = groups([row for row in view.cells if row["status"] != "ok"])
    return {
        "groups": [_group(group) for group in found[:MOST_GROUPS]],
        "left_out": sum(len(group.rows) for group in found[MOST_GROUPS:]),
    }


def _group(group: Group) -> dict[str, Any]:
    tries = [row["retry"] for row in group.rows if row["retry"]]
    meaning = STATUSES.get(group.status)
    return {
        "machine": group.machine,
        "status": group.status,
        "backend": group.backend,
        "reason": group.reason,
        "meaning": None if meaning == group.reason else meaning,
        "count": len(group.rows),
        "cells": [row["cell"] for row in group.rows[:MOST_COMMANDS]],
        "commands": tries[:MOST_COMMANDS],
        "left_out": max(0, len(group.rows) - MOST_COMMANDS),
        "stderr": next((row.stderr for row in group.rows if row.stderr), None),
    }
