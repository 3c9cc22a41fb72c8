"""Run in a backend's environment by the tests: watches products given as text, prints evidence.

Reads from stdin {"adapter", "setup", "rows": [{"label", "code", "dtype", "routine", "batch"}]};
`wait(value)` is called on each product's value if the setup defines it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from gemmgrid.measure.dispatch.library_logs import switch_on


def main() -> None:
    request = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        switch_on(request["adapter"], "cpu", Path(folder))
        answer: dict[str, Any] = {"evidence": watch_all(request, Path(folder))}
    answer["core"] = core_names()
    print("\n" + json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


def watch_all(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    from gemmgrid.measure.dispatch.evidence import observe
    from gemmgrid.measure.dispatch.hidden_work import Asked
    from gemmgrid.measure.dispatch.watched_operands import memory_of

    names: dict[str, Any] = {}
    exec(request["setup"], names)
    wait = names.get("wait", lambda value: None)
    places = {name: memory_of(value) for name, value in names.items() if name != "__builtins__"}
    operands = {name: place for name, place in places.items() if place is not None}
    found = {}
    for row in request["rows"]:
        code = compile(row["code"], row["label"], "eval")
        asked = Asked(
            row.get("dtype", "float32"),
            row.get("routine", ""),
            row.get("batch", 1),
            request["adapter"],
            row.get("output"),
        )

        def run(code: Any = code) -> None:
            wait(eval(code, names))

        found[row["label"]] = observe(run, asked, operands=operands, folder=folder)
    return found


def core_names() -> list[str]:
    """The processors that the OpenBLAS libraries in this process say they chose kernels for."""
    from gemmgrid.measure.dispatch.trace.kernel_table import find_tables

    return [table.core for table in find_tables()[0]]


if __name__ == "__main__":
    main()
