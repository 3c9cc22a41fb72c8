"""Generic resources: what a node offers (`gpu:h200:2(S:0-1),nvme:1`) and what is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_COUNT = re.compile(r"(\d+)([KMGTP]?)B?", re.IGNORECASE)
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_BETWEEN = re.compile(r",(?![^(]*\))")
_BRACKETED = re.compile(r"\([^)]*\)")


@dataclass(frozen=True)
class Gres:
    """So many of one resource: name, type where one is given, count."""

    name: str
    type: str | None
    count: int

    def __str__(self) -> str:
        return ":".join([self.name, *([self.type] if self.type else []), str(self.count)])


def offered(text: str) -> tuple[Gres, ...]:
    """A node's resources from SLURM's `Gres=`; what cannot be read is left out."""
    found = []
    for part in _parts(text):
        try:
            found.append(_gres(part))
        except ValueError:
            continue
    return tuple(found)


def requested(text: str) -> tuple[Gres, ...]:
    """What `--gres` asks for, a count of 1 where none is given; ValueError says what is wrong."""
    wanted = [_gres(part) for part in _parts(text)]
    for name in {one.name for one in wanted}:
        if len({one.type is None for one in wanted if one.name == name}) == 2:
            raise ValueError(f"SLURM refuses {name!r} with and without a type in one request")
    return tuple(one for one in wanted if one.count)


def enough(wanted: Iterable[Gres], there: Iterable[Gres]) -> bool:
    """Whether a node that offers `there` can give all of `wanted`; without a type, any type."""
    there = tuple(there)
    return all(_count(one, there) >= one.count for one in wanted)


def _count(wanted: Gres, there: tuple[Gres, ...]) -> int:
    return sum(
        one.count for one in there if one.name == wanted.name and wanted.type in (None, one.type)
    )


def _parts(text: str) -> list[str]:
    """The parts between commas, but not the commas of `(S:0,1)`; sockets and the like dropped."""
    parts = [_BRACKETED.sub("", part).strip() for part in _BETWEEN.split(text)]
    return [part for part in parts if part and part.casefold() not in ("none", "n/a")]


def _gres(part: str) -> Gres:
    pieces = [piece for piece in part.split(":") if piece != "no_consume"]
    count = _COUNT.fullmatch(pieces[-1]) if len(pieces) > 1 else None
    if count:
        pieces.pop()
    if not all(pieces) or len(pieces) > 2:
        raise ValueError(f"{part!r} is not name, name:count or name:type:count")
    number = int(count[1]) * 1024 ** _POWER[count[2].upper()] if count else 1
    return Gres(pieces[0], pieces[1] if len(pieces) == 2 else None, number)
