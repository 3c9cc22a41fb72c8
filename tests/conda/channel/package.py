"""A small conda channel on disk: packages in the `.conda` format and their repodata.

https://github.com/conda/ceps (CEP 34 for the packages' content, CEP 35 for their archives)
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

PLACEHOLDER = "/opt/placehold_" + "_" * 200
"""Stands in packaged text for the prefix; the installer puts the real one in its place."""
SUBDIRS = {
    ("Linux", "x86_64"): "linux-64",
    ("Linux", "aarch64"): "linux-aarch64",
    ("Darwin", "arm64"): "osx-arm64",
    ("Darwin", "x86_64"): "osx-64",
}


@dataclass(frozen=True)
class Link:
    """A symbolic link in a package."""

    target: str


@dataclass
class Package:
    """One package: what its metadata says, and its files by their path in the prefix."""

    name: str
    version: str
    build: str = "0"
    number: int = 0
    depends: list[str] = field(default_factory=list)
    constrains: list[str] = field(default_factory=list)
    track_features: str | None = None
    noarch_python: bool = False
    entry_points: list[str] = field(default_factory=list)
    files: dict[str, bytes | Path | Link] = field(default_factory=dict)
    executable: set[str] = field(default_factory=set)
    prefixed: set[str] = field(default_factory=set)
    """Text files in which PLACEHOLDER stands for the prefix."""

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.version}-{self.build}"


class Channel:
    """A channel's folder, for this machine's platform; `write` ends it."""

    def __init__(self, root: Path, subdir: str | None = None) -> None:
        self.root = root
        self.subdir = subdir or SUBDIRS[platform.system(), platform.machine()]
        self._entries: dict[str, dict[str, Any]] = {self.subdir: {}, "noarch": {}}

    def add(self, package: Package) -> Path:
        """Write a package's file; returns its path."""
        subdir = "noarch" if package.noarch_python else self.subdir
        index = _index(package, subdir)
        members = [_member(path, content, package) for path, content in package.files.items()]
        path = self.root / subdir / f"{package.stem}.conda"
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
            archive.writestr(f"pkg-{package.stem}.tar.zst", _compressed(members))
            archive.writestr(
                f"info-{package.stem}.tar.zst", _compressed(_info(package, index, members))
            )
        content = path.read_bytes()
        self._entries[subdir][path.name] = {
            **{key: value for key, value in index.items() if value is not None},
            "md5": hashlib.md5(content, usedforsecurity=False).hexdigest(),
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content),
        }
        return path

    def write(self) -> None:
        """Write the repodata of both folders."""
        for subdir, entries in self._entries.items():
            write_repodata(self.root, subdir, entries)


def write_repodata(root: Path, subdir: str, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """A folder's repodata.json, from its packages' records by file name."""
    document = {
        "info": {"subdir": subdir},
        "packages": {},
        "packages.conda": entries,
        "repodata_version": 1,
    }
    folder = root / subdir
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "repodata.json").write_text(json.dumps(document))


def _index(package: Package, subdir: str) -> dict[str, Any]:
    return {
        "name": package.name,
        "version": package.version,
        "build": package.build,
        "build_number": package.number,
        "depends": package.depends,
        "constrains": package.constrains,
        "subdir": subdir,
        "noarch": "python" if package.noarch_python else None,
        "track_features": package.track_features,
        "timestamp": 1_700_000_000_000,
    }


Member = tuple[tarfile.TarInfo, bytes]


def _member(path: str, content: bytes | Path | Link, package: Package) -> Member:
    entry = tarfile.TarInfo(path)
    if isinstance(content, Link):
        entry.type, entry.linkname = tarfile.SYMTYPE, content.target
        return entry, b""
    data = content if isinstance(content, bytes) else content.read_bytes()
    runs = path.startswith("bin/") or path in package.executable
    runs = runs or (isinstance(content, Path) and os.access(content, os.X_OK))
    entry.size, entry.mode = len(data), 0o755 if runs else 0o644
    return entry, data


def _info(package: Package, index: dict[str, Any], members: Iterable[Member]) -> list[Member]:
    paths = []
    for entry, data in members:
        described: dict[str, Any] = {
            "_path": entry.name,
            "path_type": "softlink" if entry.issym() else "hardlink",
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_in_bytes": len(data),
        }
        if entry.name in package.prefixed:
            described |= {"prefix_placeholder": PLACEHOLDER, "file_mode": "text"}
        paths.append(described)
    texts: dict[str, Any] = {
        "info/index.json": {key: value for key, value in index.items() if value is not None},
        "info/paths.json": {"paths": paths, "paths_version": 1},
    }
    if package.noarch_python:
        python = {"type": "python", "entry_points": package.entry_points}
        texts["info/link.json"] = {"package_metadata_version": 1, "noarch": python}
    contents = {name: json.dumps(text).encode() for name, text in texts.items()}
    contents["info/files"] = "".join(f"{one['_path']}\n" for one in paths).encode()
    return [_member(name, content, package) for name, content in contents.items()]


def _compressed(members: Iterable[Member]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry, data in members:
            archive.addfile(entry, io.BytesIO(data))
    return zstandard.ZstdCompressor(level=1, threads=-1).compress(buffer.getbuffer())
