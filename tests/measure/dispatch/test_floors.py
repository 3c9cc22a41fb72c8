"""The evidence's rooms stand on one another without a circle; proven on the imports themselves."""

from __future__ import annotations

import pytest

from tests.test_layers import PACKAGE, imports

FOLDER = PACKAGE / "measure/dispatch"
FLOORS = [
    {"objects"},
    {"trace", "documented"},
    {"library_logs"},
    {"watch"},
    {"hidden_work", "proof"},
    {"verdict", "watched_operands"},
    {"evidence"},
    {"evidence_process", "explain"},
    {"__main__"},
]
"""From the bottom: a room or file imports itself and what lies on lower floors."""
LEVEL = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_imports_go_down(path):
    room = path.relative_to(FOLDER).parts[0].removesuffix(".py")
    if room == "__init__":
        assert not imports(path) - {"__future__", "__future__.annotations"}
        return
    for module in imports(path):
        parts = module.split(".")
        if parts[:3] == ["gemmgrid", "measure", "dispatch"] and len(parts) > 3 and parts[3] != room:
            assert parts[3] not in LEVEL or LEVEL[parts[3]] < LEVEL[room], module


def test_every_room_has_its_floor():
    rooms = {path.relative_to(FOLDER).parts[0].removesuffix(".py") for path in FOLDER.rglob("*.py")}
    assert rooms - {"__init__"} == set(LEVEL)
