"""Where a run is made: the machine's facts, its identity and its context, gathered once a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gemmgrid.measure import context, gpu, machine
from gemmgrid.records.context import digest, known
from gemmgrid.records.history import create_atomically, write_atomically

MACHINE_FILE = "machine.json"
VOLATILE = ("recorded_at",)


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

        Its machine.json describes other hardware, or cannot be read. Without one, they do.
        """
        path = folder / MACHINE_FILE
        try:
            earlier = json.loads(path.read_text())
            there = machine.identity(earlier)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            return f"{path} cannot be read: {error}"
        gpu_id = self.gpu["id"] if self.gpu else None
        if there["host_id"] == self.host["id"] and not (
            gpu_id and there["gpu_id"] and gpu_id != there["gpu_id"]
        ):
            return None
        return f"this is other hardware than {path} describes"

    def write(self, folder: Path) -> str | None:
        """Keep machine.json in the machine's results folder up to date.

        Returns why the runs do not belong together when the folder holds another machine's facts;
        that file is then left alone.
        """
        path = folder / MACHINE_FILE
        content = (json.dumps(self.facts, indent=1) + "\n").encode()
        if not path.exists() and create_atomically(path, content):
            return None
        problem = self.stranger_to(folder)
        if problem is None:
            earlier = json.loads(path.read_text())
            if any(
                earlier.get(key) != value
                for key, value in self.facts.items()
                if key not in VOLATILE
            ):
                write_atomically(path, content)
        return problem


def _visible_gpu(device: str) -> int:
    """Which of the machine's GPUs a process uses; the first where only one can be used or told."""
    if device == "cpu":
        return 0
    nvml, _ = gpu.connect()
    index = gpu.visible_index(nvml) if nvml else None
    return index or 0
