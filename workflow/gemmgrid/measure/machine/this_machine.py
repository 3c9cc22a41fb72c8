"""The machine that a run is made on: its facts, identity and context, and its machine.json."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gemmgrid.measure import machine
from gemmgrid.measure.host import gpu, job
from gemmgrid.measure.machine import context
from gemmgrid.measure.peaks import gpu_peaks, peaks
from gemmgrid.records.ceilings import cache_bytes
from gemmgrid.records.context import digest, known
from gemmgrid.records.files import PASSING, create_atomically, read_regular, write_atomically
from gemmgrid.records.foreign_runs import MACHINE_FILE
from gemmgrid.records.identity import is_same
from gemmgrid.system import macos

VOLATILE = ("recorded_at",)
PAUSES_S = (0.1, 0.5)
"""Before the second and the third try to read machine.json: others write it over the network."""


class UnreadableError(Exception):
    """machine.json is there and cannot be understood, so it tells nothing about anybody."""


class ThisMachine:
    """The machine that this process runs on, as the record keeps it.

    facts     as `machine.facts` gives them
    host      its identity: {"id": …, and the facts that were hashed}
    gpu       of the GPU that is used: {"id", "name", "driver"}; None without one
    context   "host" and "device" with their hashes
    """

    def __init__(self, device: str, variables: Mapping[str, str] = os.environ) -> None:
        """variables   of the measured processes: they choose the GPU"""
        self.facts = machine.facts()
        gpus, index = self.facts.get("gpus") or [], _visible_gpu(device, variables)
        self._used = gpus[index] if index is not None and index < len(gpus) else None
        identity = machine.identity(self.facts)
        self.host = {"id": identity["host_id"], **identity["host"]}
        self.gpu = None
        if self._used and index is not None:
            kept = {key: self._used.get(key) for key in ("name", "driver")}
            self.gpu = {"id": identity["gpu_ids"][index], **kept}
        host, own = context.host_context(), context.device_context(device, variables)
        self.context: dict[str, Any] = {
            "host": host,
            "device": own,
            "host_hash": digest(known(host)),
            "device_hash": digest(known(own)) if own else None,
        }

    @property
    def gpu_memory_bytes(self) -> int | None:
        """Memory of the GPU that is used, where the size is known: not of a MIG instance, which
        has a part of it."""
        used = self._used or {}
        return None if used.get("mig") else used.get("memory_bytes")

    @property
    def cache_bytes(self) -> int | None:
        """Size of all caches past the first level together: the GPU's where one is used."""
        if self._used:
            row = gpu_peaks.lookup(self._used.get("name"))
            return round(row.cache_mb * 2**20) if row and row.cache_mb else None
        return cache_bytes(self.facts)

    def stranger_to(self, folder: Path) -> str | None:
        """Why runs made here do not belong to the machine that `folder` is for; None if they do.

        Its machine.json describes other hardware. Without one, they do; UnreadableError where it
        cannot be read.
        """
        path = folder / MACHINE_FILE
        earlier = _read(path)
        return None if earlier is None else self._stranger(earlier, path)

    def write(self, folder: Path) -> str | None:
        """Keep machine.json in the machine's results folder up to date.

        Returns why the runs do not belong together when the folder holds another machine's facts;
        that file is then left alone, as is one that cannot be read (UnreadableError).
        """
        path = folder / MACHINE_FILE
        earlier = _read(path)
        if earlier is None:
            if create_atomically(path, _spell(self.facts)):
                return None
            earlier = _read(path) or self.facts  # another node came first
        problem = self._stranger(earlier, path)
        if problem is None:
            facts = self._up_to_date(earlier, path)
            if any(
                earlier.get(key) != value for key, value in facts.items() if key not in VOLATILE
            ):
                write_atomically(path, _spell(facts))
        return problem

    def _stranger(self, earlier: Mapping[str, Any], path: Path) -> str | None:
        with _understanding(path):
            same = is_same(self.host, self.gpu, earlier)
        return None if same else f"this is other hardware than {path} describes"

    def _up_to_date(self, earlier: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """What machine.json is to hold. Nodes that are equal would write over each other for ever,
        because they differ in what identity leaves out: there only gaps are filled."""
        if job.job_id() is None:
            return self.facts
        with _understanding(path):
            return completed(earlier, self.facts)


def completed(earlier: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A machine's facts with the gaps filled by what an equal node knows; nothing is replaced.

    Memory, firmware, kernel and driver differ between equal nodes, and a job sees only the GPUs
    that it was given. Who fills gaps alone has nothing more to write once they are filled. Schema
    and peaks follow from the facts and from this version.
    """
    apart = ("gpus", "peaks", *VOLATILE)
    found = _filled(*({k: v for k, v in one.items() if k not in apart} for one in (earlier, facts)))
    found["gpus"] = _all_gpus(earlier.get("gpus") or [], facts.get("gpus") or [])
    found["unknown"] = _still_unknown(found, found.get("unknown") or {})
    found |= {key: facts[key] for key in ("schema", *VOLATILE) if key in facts}
    found["peaks"] = peaks.table(found)
    return {key: found[key] for key in (*facts, *(key for key in found if key not in facts))}


def _all_gpus(earlier: list[dict[str, Any]], here: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The GPUs of the node that was given more of the same kind, with what each could tell."""
    kinds = {*machine.identity({"gpus": [*earlier, *here]})["gpu_ids"]}
    if len(kinds) > 1:
        return earlier
    found = [_filled(old, new) for old, new in zip(earlier, here, strict=False)]
    for one in found:
        if "unknown" in one:
            one["unknown"] = _still_unknown(one, one["unknown"])
    return found + max(earlier, here, key=len)[len(found) :]


def _filled(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """`old`, and from `new` what is null, empty or absent there."""
    found = dict(old)
    for key, value in new.items():
        if isinstance(old.get(key), dict) and isinstance(value, dict):
            found[key] = _filled(old[key], value)
        elif _is_gap(old.get(key)):
            found[key] = value
    return found


def _still_unknown(facts: Mapping[str, Any], reasons: Mapping[str, str]) -> dict[str, str]:
    """The reasons without those of facts that are known by now."""

    def value(name: str) -> Any:
        found: Any = facts
        for key in name.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    return {name: reason for name, reason in reasons.items() if _is_gap(value(name))}


def _is_gap(value: Any) -> bool:
    return value is None or value in ([], {})


@contextmanager
def _understanding(path: Path) -> Iterator[None]:
    """Facts of odd types are facts that cannot be read."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableError(f"{path} cannot be read: {error}") from error


def _spell(facts: Mapping[str, Any]) -> bytes:
    return (json.dumps(facts, indent=1) + "\n").encode()


def _read(path: Path) -> dict[str, Any] | None:
    """The facts of a machine.json; None where there is none."""
    for pause in (*PAUSES_S, None):
        try:
            document = json.loads(read_regular(path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            may_pass = not isinstance(error, OSError) or error.errno in PASSING
            if pause is None or not may_pass:
                raise UnreadableError(f"{path} cannot be read: {error}") from error
            time.sleep(pause)
            continue
        if isinstance(document, dict):
            return document
        break
    raise UnreadableError(f"{path} cannot be read: it holds {type(document).__name__}, no facts")


def _visible_gpu(device: str, variables: Mapping[str, str]) -> int | None:
    """Which of the machine's GPUs a process uses; on a Mac the only one."""
    if device == "cpu":
        return None
    card, _ = gpu.used(device, variables)
    return card.index if card else 0 if macos.is_darwin() else None
