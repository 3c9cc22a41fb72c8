"""Building one backend's virtual environment with uv, so that it is whole or not there.

The environment is built beside its place and renamed into it when it is complete; what a killed
build leaves behind is removed by the next one. The marker says how it ended, and a copy of it stays
inside the environment, by which an unchanged environment is recognised.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from gemmgrid.plan.environments import uv
from gemmgrid.plan.environments.progress import Progress
from gemmgrid.records import locks
from gemmgrid.records.files import write_atomically
from gemmgrid.records.names import name_problem
from gemmgrid.records.run import now

STAMP = "gemmgrid.json"
LIMIT_S = 3600.0
TAIL = 4000


class BuildError(RuntimeError):
    """The environment cannot be built; the text is the reason that cells will show."""


def build(
    name: str,
    envs: Path,
    into: Path,
    out: TextIO = sys.stderr,
    limit_s: float = LIMIT_S,
) -> dict[str, Any]:
    """Make `into/name` what `envs/name.txt` says, unless it is so already; returns the marker.

    Never raises for a build that fails: then the marker's status is `failed`, with the reason, and
    an environment that was there before stays.
    """
    started = time.monotonic()
    progress = Progress(name, out)
    log: list[str] = []
    marker: dict[str, Any] = {
        "status": "failed",
        "name": name,
        "prefix": str(into.resolve() / name),
        "python": platform.python_version(),
        "lock_hash": None,
        "packages": [],
        "seconds": 0.0,
        "reason": None,
        "log_tail": None,
        "built_at": now(),
    }
    try:
        if problem := name_problem(name):
            raise BuildError(problem)
        marker["lock_hash"] = lock_hash(envs / f"{name}.txt")
        with _alone(into, name):
            if earlier := _unchanged(into / name, marker):
                progress.end("ready")
                return earlier
            _build_beside(name, envs / f"{name}.txt", into, marker, progress, log, limit_s)
        progress.end(f"built in {marker['seconds']:.1f} s (packages: {len(marker['packages'])})")
    except (BuildError, OSError, subprocess.SubprocessError) as error:
        marker["reason"] = str(error)
        marker["log_tail"] = "".join(log)[-TAIL:] or None
        marker["seconds"] = round(time.monotonic() - started, 3)
        progress.end(f"failed: {error}")
    return marker


def lock_hash(lock: Path) -> str:
    """Hash of what a .txt asks for, without comments and blank lines. BuildError without it."""
    try:
        return locks.lock_hash(lock)
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{lock} cannot be read: {error}") from None


def packages_in(prefix: Path) -> list[dict[str, str]]:
    """Names and versions of what is installed in an environment, without starting its Python."""
    folders = [str(folder) for folder in prefix.glob("lib/python*/site-packages")]
    found = {
        distribution.metadata["Name"]: distribution.version
        for distribution in metadata.distributions(path=folders)
    }
    return [
        {"name": name, "version": version}
        for name, version in sorted(found.items(), key=lambda item: item[0].casefold())
    ]


def _unchanged(prefix: Path, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The marker of the environment that is there, if it is what is wanted; otherwise None."""
    try:
        stamp: dict[str, Any] = json.loads((prefix / STAMP).read_text(encoding="utf-8"))
        same = all(stamp[key] == wanted[key] for key in ("lock_hash", "python", "prefix"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # Its Python is a link to the one it was made from, which may be gone.
    return stamp if same and os.access(prefix / "bin/python", os.X_OK) else None


def _build_beside(
    name: str,
    lock: Path,
    into: Path,
    marker: dict[str, Any],
    progress: Progress,
    log: list[str],
    limit_s: float,
) -> None:
    started = time.monotonic()
    _remove_leftovers(into, name)
    beside = into / f".building-{name}-{os.getpid()}"
    python = str(beside / "bin/python")
    try:
        for arguments in (
            # Relocatable, so that it also works under the name it is renamed to.
            ["venv", "--relocatable", "--no-project", "--python", sys.executable, str(beside)],
            ["pip", "install", "--python", python, "--requirement", str(lock)],
        ):
            left = limit_s - (time.monotonic() - started)
            _run(name, [*uv.command(), *arguments], progress, log, left)
        marker.update(
            status="ok",
            packages=packages_in(beside),
            seconds=round(time.monotonic() - started, 3),
        )
        (beside / STAMP).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
        _put_in_place(beside, into / name)
    except BaseException:
        marker.update(status="failed", packages=[])
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _run(name: str, command: list[str], progress: Progress, log: list[str], limit_s: float) -> None:
    """Run uv to its end, keeping what it says; BuildError with its reason where it fails."""
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=uv.environment(os.environ, name=name),
    )
    try:
        while True:
            try:
                said, _ = process.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                progress.show("building …")
                if time.monotonic() - started > limit_s:
                    raise BuildError("not finished within its time limit") from None
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    log.append(said)
    if process.returncode != 0:
        raise BuildError(_reason(said) or f"uv ended with exit code {process.returncode}")


def _reason(said: str) -> str:
    """The heart of uv's message: what follows its error mark, on one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    start = next(
        (number for number, line in enumerate(lines) if line.startswith(("×", "error:"))), None
    )
    chosen = lines[-3:] if start is None else lines[start:]
    words = " ".join(line.lstrip("×╰─▶│├ ") for line in chosen).removeprefix("error: ")
    return words if len(words) <= 500 else f"{words[:499]}…"


def _put_in_place(beside: Path, place: Path) -> None:
    old = place.with_name(f".old-{place.name}-{os.getpid()}")
    if place.exists() or place.is_symlink():
        place.rename(old)
    beside.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def _remove_leftovers(into: Path, name: str) -> None:
    """Remove what killed builds of this environment left; only the holder of its lock may."""
    for kind in ("building", "old"):
        for leftover in into.glob(f".{kind}-{name}-*"):
            if leftover.name.removeprefix(f".{kind}-{name}-").isdigit():
                shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def _alone(into: Path, name: str) -> Iterator[None]:
    """Wait until no other process builds the same environment."""
    into.mkdir(parents=True, exist_ok=True)
    with (into / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_marker(path: Path, marker: dict[str, Any]) -> None:
    """Write the marker whole or not at all, as the last thing of a build."""
    write_atomically(path, (json.dumps(marker, indent=1) + "\n").encode())
