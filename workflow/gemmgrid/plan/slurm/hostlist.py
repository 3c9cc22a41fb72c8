"""Node names as people read them: ice1, ice2, mil1 are `ice[1-2],mil1`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

_NUMBERED = re.compile(r"(.*?)(\d+)")


def fold(names: Iterable[str], groups: int = 6) -> str:
    """The names with consecutive numbers joined; no more than `groups` pieces at each level."""
    plain: list[str] = []
    numbered: dict[str, list[str]] = defaultdict(list)
    for name in sorted(set(names)):
        match = _NUMBERED.fullmatch(name)
        if match:
            numbered[match[1]].append(match[2])
        else:
            plain.append(name)
    folded = plain + [
        text for prefix, digits in numbered.items() for text in _ranges(prefix, digits, groups)
    ]
    folded.sort()
    rest = len(folded) - groups
    return ",".join(folded[:groups]) + (f" … and {rest} more" if rest > 0 else "")


def _ranges(prefix: str, digits: list[str], most: int) -> list[str]:
    """`prefix[001-003,007]`, once for each width where the numbers carry leading zeros."""
    padded = any(len(one) > 1 and one.startswith("0") for one in digits)
    widths: dict[int, list[int]] = defaultdict(list)
    for one in digits:
        widths[len(one) if padded else 0].append(int(one))
    return [
        _range(prefix, width, sorted(numbers), most) for width, numbers in sorted(widths.items())
    ]


def _range(prefix: str, width: int, numbers: list[int], most: int) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]:0{width}d}"
    spans = [
        f"{run[0]:0{width}d}" + (f"-{run[-1]:0{width}d}" if len(run) > 1 else "") for run in runs
    ]
    if len(spans) > most:
        return f"{prefix}[{','.join(spans[:most])},…] ({len(numbers)} nodes)"
    return f"{prefix}[{','.join(spans)}]"
