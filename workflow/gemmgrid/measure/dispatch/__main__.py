"""Two commands, both in a backend's environment:

the evidence process of a cell   python -s -m gemmgrid.measure.dispatch JOB.json OUT.json
one expression, explained        python -s -m gemmgrid.measure.dispatch explain --expr …
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["explain"]:
        from gemmgrid.measure.dispatch.explain.command import main as explain

        return explain(arguments[1:])
    if len(arguments) == 2:
        from gemmgrid.measure.dispatch.evidence_process import main as process

        process(Path(arguments[0]).absolute(), Path(arguments[1]).absolute())
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
