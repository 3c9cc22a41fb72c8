"""Nothing of an installed package is rebound: what is imported is called, never changed."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OWN = ("gemmgrid", "snakemake_executor_plugin_gemmgrid_slurm")
SETTERS = {"setattr", "delattr"}
SWITCHES = ("torch.backends.cuda.matmul.allow_",)
"""Settings that a library documents to be set this way."""


def imported(tree: ast.AST) -> set[str]:
    """Names by which a file knows modules of installed packages, and what it took from them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(alias.name, alias.asname) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [(f"{node.module}.{alias.name}", alias.asname) for alias in node.names]
            names = [(name, own or name.rpartition(".")[2]) for name, own in names]
        else:
            continue
        for name, own in names:
            package = name.partition(".")[0]
            if package not in sys.stdlib_module_names and package not in OWN:
                found.add(own or package)
    return found


def rebound(text: str) -> list[str]:
    """What a Python text sets or deletes of what it imports from installed packages."""
    tree = ast.parse(text)
    names, found = imported(tree), []

    def root(node: ast.AST) -> str | None:
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return node.id if isinstance(node, ast.Name) else None

    for node in ast.walk(tree):
        stored = isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if (stored and root(node) in names) or (
            called and node.func.id in SETTERS and node.args and root(node.args[0]) in names
        ):
            found.append(ast.unparse(node))
    return [one for one in found if not one.startswith(SWITCHES)]


@pytest.mark.parametrize(
    "text",
    [
        "import plugin\nplugin.f = 1",
        "from plugin import Executor\nExecutor.run = 1",
        "import plugin.inner\nplugin.inner.f = 1",
        "import plugin as p\nsetattr(p, 'f', 1)",
        "def f():\n    from plugin import x\n    del x.y",
    ],
)
def test_the_test_sees_it(text):
    assert rebound(text)


@pytest.mark.parametrize("text", ["import os\nos.x = 1", "x.y = 1", "import plugin\nplugin.f(1)"])
def test_the_test_sees_nothing_else(text):
    assert rebound(text) == []


def test_nothing_is_rebound_in_the_package():
    files = sorted((ROOT / "workflow").rglob("*.py"))
    assert files
    found = {str(path): rebound(path.read_text(encoding="utf-8")) for path in files}
    assert {path: what for path, what in found.items() if what} == {}


def test_rules_change_nothing_of_snakemake():
    """Rules are no Python that could be parsed, but what they assign stands at a line's begin."""
    for path in sorted((ROOT / "workflow/rules").glob("*.smk")):
        text = path.read_text(encoding="utf-8")
        names = {
            "workflow",
            "snakemake",
            *re.findall(r"^\s*(?:from \S+ )?import (\w+)", text, re.M),
        }
        assigned = re.findall(r"^\s*(\w+)\.[\w.]+\s*[-+|&]?=(?!=)", text, re.M)
        assert not names & {*assigned}, path
        assert not re.search(r"\b(setattr|delattr)\(", text), path
        private = re.findall(r"\bworkflow\.(_\w+|dag|persistence|async_run)\b", text)
        assert private == [], path
