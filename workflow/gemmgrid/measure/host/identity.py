"""Where a run is made: the machine's facts, its identity and its context, gathered once a job."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gemmgrid.measure import machine
from gemmgrid.measure.host import context, gpu
from gemmgrid.measure.node import slurm
from gemmgrid.measure.peaks import peaks
from gemmgrid.records.context import digest, known
from gemmgrid.records.files import PASSING, create_atomically, write_atomically

MACHINE_FILE = "machine.json"
VOLATILE = ("recorded_at",)
PAUSES_S = (0.1, 0.5)
"""Before the second and the third try to read machine.json: others write it over the network."""


class UnreadableError(Exception):
    """machine.json is there and cannot be understood, so it tells nothing about anybody."""


class Whereabouts:
    """The machine that this process runs on, as the record keeps it."""

    def __init__(self, device: str) -> None:
        self.facts = machine.facts()
        self.gpu_index = _visible_gpu(device)
        identity = machine.identity(self.facts, self.gpu_index)
        self.host = {"id": identity["host_id"], **identity["host"]}
        self.gpu = None
        gpus = self.facts.get("gpus") or []
        if device != "cpu" and self.gpu_index < len(gpus):
            used = gpus[self.gpu_index]
            self.gpu = {
                "id": identity["gpu_id"],
                "name": used.get("name"),
                "driver": used.get("driver"),
            }
        host, own = context.host_context(), context.device_context(device)
        self.context: dict[str, Any] = {
            "host": host,
            "device": own,
            "host_hash": digest(known(host)),
            "device_hash": digest(known(own)) if own else None,
        }

    @property
    def gpu_memory_bytes(self) -> int | None:
        """Memory of the GPU that is used, where it has its own and the size is known."""
        gpus = self.facts.get("gpus") or []
        if self.gpu is None or self.gpu_index >= len(gpus):
            return None
        found: int | None = gpus[self.gpu_index].get("memory_bytes")
        return found

    @property
    def cache_bytes(self) -> int | None:
        """Size of the largest cache, in bytes."""
        caches = (self.facts.get("cpu") or {}).get("caches") or []
        return max((cache["size_bytes"] or 0 for cache in caches), default=0) or None

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
            there = machine.identity(earlier)
        gpu_id = self.gpu["id"] if self.gpu else None
        if there["host_id"] == self.host["id"] and not (
            gpu_id and there["gpu_id"] and gpu_id != there["gpu_id"]
        ):
            return None
        return f"this is other hardware than {path} describes"

    def _up_to_date(self, earlier: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """What machine.json is to hold. Nodes that are equal would write over each other for ever,
        because they differ in what identity leaves out: there only gaps are filled."""
        if slurm.job_id() is None:
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
    kinds = {machine.identity({"gpus": [one]})["gpu_id"] for one in (*earlier, *here)}
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
            document = json.loads(path.read_bytes())
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


def _visible_gpu(device: str) -> int:
    """Which of the machine's GPUs a process uses; the first where only one can be used or told."""
    if device == "cpu":
        return 0
    nvml, _ = gpu.connect()
    index = gpu.visible_index(nvml) if nvml else None
    return index or 0
