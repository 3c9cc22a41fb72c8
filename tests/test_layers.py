"""Three wings on one ground floor: who may import whom, and what; proven on the imports."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.measure.interpreters import ROOT, run

PACKAGE = ROOT / "workflow/gemmgrid"
GROUND = {"records", "system"}
WINGS = {*GROUND, "plan", "measure", "report"}
NUMERIC = {"numpy", "scipy", "torch", "mlx", "jax", "pandas", "pyarrow", "seaborn", "matplotlib"}
REPORTING = {"numpy", "scipy", "pandas", "pyarrow", "seaborn", "matplotlib", "jinja2", "markupsafe"}
BACKENDS = {"scipy", "torch", "mlx", "jax"}
WATCHING = {"psutil", "pynvml"}
"""What the supervising side loads when it needs it, and a measured process never."""
SUPERVISING = [
    "gemmgrid.measure.command",
    "gemmgrid.measure.supervise.supervisor",
    "gemmgrid.measure.supervise.rounds",
    "gemmgrid.measure.doctor",
    "gemmgrid.measure.explain",
]


FLOORS = {
    "measure": [
        {"host", "libraries", "peaks", "code_pages", "perf_events"},
        {"machine", "adapters", "probe"},
        {"invocation", "supervise"},
        {"dispatch", "doctor", "node", "explain"},
        {"command"},
    ],
    "report": [
        {"statistics"},
        {"read"},
        {"bundles", "lesson"},
        {"terminal"},
        {"judge"},
        {"draw"},
        {"page", "tables"},
        {"command"},
    ],
}
"""Each wing's rooms from the bottom: a room imports itself and what lies on lower floors."""


def imports(path: Path) -> set[str]:
    """Modules that a file imports anywhere, also inside functions; not those that only annotate."""
    found = set()
    for node in _running(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _running(node)


def _module(path: Path) -> str:
    """`gemmgrid.report.tables` of that file; a folder's name of its __init__."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def files(wing: str) -> list[Path]:
    found = sorted((PACKAGE / wing).rglob("*.py"))
    assert found
    return found


@pytest.mark.parametrize("wing", sorted(WINGS))
def test_a_wing_imports_the_ground_floor_and_no_other_wing(wing):
    allowed = {wing} if wing in GROUND else {wing, *GROUND}
    for path in files(wing):
        for module in imports(path):
            parts = module.split(".")
            if parts[0] == "gemmgrid" and len(parts) > 1 and parts[1] in WINGS:
                assert parts[1] in allowed, f"{path.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("wing", sorted(FLOORS))
def test_the_rooms_of_a_wing_stand_on_floors(wing):
    level = {room: number for number, rooms in enumerate(FLOORS[wing]) for room in rooms}
    for path in files(wing):
        room = path.relative_to(PACKAGE / wing).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        for module in imports(path):
            parts = module.split(".")
            if parts[:2] == ["gemmgrid", wing] and len(parts) > 2 and parts[2] != room:
                told = f"{path.relative_to(ROOT)} imports {module}"
                assert parts[2] not in level or level[parts[2]] < level[room], told


@pytest.mark.parametrize("wing", ["records", "report"])
def test_no_file_of_a_wing_imports_itself_by_a_detour(wing):
    names = {_module(path): path for path in files(wing)}
    graph = {name: imports(path) & names.keys() - {name} for name, path in names.items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(names)


@pytest.mark.parametrize(
    ("wing", "allowed"),
    [
        ("records", set()),
        ("system", {"psutil"}),
        ("plan", {"yaml", "jsonschema", "pynvml"}),
        ("report", REPORTING),
        (
            "measure",
            NUMERIC - {"pandas", "pyarrow", "seaborn", "matplotlib"} | {"jaxlib"} | WATCHING,
        ),
    ],
)
def test_what_each_wing_imports_beside_the_standard_library(wing, allowed):
    known = set(sys.stdlib_module_names) | {"gemmgrid"} | allowed
    for path in files(wing):
        strangers = {module.split(".")[0] for module in imports(path)} - known
        assert not strangers, f"{path.relative_to(ROOT)} imports {sorted(strangers)}"


def test_a_backend_is_imported_by_its_adapter_and_evidence_only():
    for path in files("measure"):
        used = {module.split(".")[0] for module in imports(path)} & BACKENDS
        place = path.relative_to(PACKAGE / "measure").parts[0]
        assert not used or place in ("adapters", "dispatch"), path


def loaded(module: str, python: str = sys.executable) -> set[str]:
    """Top-level modules in memory after importing one of ours in a fresh process."""
    program = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [python, "-s", "-c", program],
        env={"PYTHONPATH": str(ROOT / "workflow"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in json.loads(done.stdout)}


def test_planning_loads_no_numeric_library():
    assert not loaded("gemmgrid.plan") & NUMERIC


@pytest.mark.parametrize("module", SUPERVISING)
def test_the_supervising_side_starts_with_the_standard_library_only(module):
    """It starts fast: psutil and pynvml are loaded where a machine has what they tell."""
    own = set(sys.stdlib_module_names) | {"gemmgrid", "__main__", "sitecustomize", "usercustomize"}
    strangers = {name for name in loaded(module) - own if not name.startswith(("_", "__editable"))}
    assert not strangers - {"distutils-precedence"}, strangers


def test_reporting_loads_no_backend():
    assert not loaded("gemmgrid.report.command") & BACKENDS


@pytest.mark.parametrize(
    ("environment", "adapter", "own"),
    [("numpy-openblas", "numpy", set()), ("mlx-cpu", "mlx", {"mlx"})],
)
def test_a_measured_process_loads_numpy_and_its_backend_only(environment, adapter, own):
    program = (
        "import json, sys\n"
        "from gemmgrid.measure import adapters\n"
        "from gemmgrid.measure.invocation import steps\n"
        f"adapters.load('{adapter}')('cpu', {{}})\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    names = set(json.loads(run(environment, "-c", program).splitlines()[-1]))
    assert not (names & (NUMERIC | WATCHING)) - {"numpy"} - own
