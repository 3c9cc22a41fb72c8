"""The test double's `conda`: see the package's docstring for what it is and what it is not.

Started by bin/conda. Variables: CONDA_DOUBLE_CHANNEL, the URL of the folder that stands for
conda-forge; CONDA_DOUBLE_CACHE, its package cache.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

VERSION = "24.7.1"  # the least that Snakemake takes


def main(arguments: list[str]) -> int:
    given = parser().parse_args(arguments)
    command = given.command if given.command != "env" else f"env {given.env_command}"
    if command == "info":
        from rattler.platform import Subdir

        # Snakemake sources <conda_prefix>/bin/activate.
        prefix = str(Path(__file__).resolve().parent)
        platform = str(Subdir.current())
        print(json.dumps({"conda_prefix": prefix, "platform": platform, "conda_version": VERSION}))
    elif command == "config":
        print(json.dumps({"get": {"channel_priority": "strict"}}))
    elif command == "list":
        print("@EXPLICIT", *(record.url for record in installed(Path(given.prefix))), sep="\n")
    elif command == "env create":
        asyncio.run(create(Path(given.prefix), read_environment(Path(given.file))))
    elif command == "create":
        lines = given.packages or Path(given.file).read_text(encoding="utf-8").splitlines()
        wanted = [line for line in lines if line and line[0] not in "@#"]
        asyncio.run(link(Path(given.prefix), [explicit(url) for url in wanted]))
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser("conda")
    top.add_argument("--version", action="version", version=f"conda {VERSION} (test double)")
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("info").add_argument("--json", action="store_true")
    config = commands.add_parser("config")
    config.add_argument("--get")
    config.add_argument("--json", action="store_true")
    clean = commands.add_parser("clean")
    for option in ("-y", "--tarballs", "--packages"):
        clean.add_argument(option, action="store_true")
    listing = commands.add_parser("list")
    listing.add_argument("--explicit", action="store_true")
    listing.add_argument("--prefix", required=True)
    env = commands.add_parser("env").add_subparsers(dest="env_command", required=True)
    for making in (commands.add_parser("create"), env.add_parser("create")):
        for option in ("--quiet", "--yes", "--no-default-packages"):
            making.add_argument(option, action="store_true")
        making.add_argument("--file")
        making.add_argument("--prefix", required=True)
        making.add_argument("packages", nargs="*")
    return top


def read_environment(path: Path) -> dict[str, Any]:
    """An environment.yml; ValueError for what this double does not have."""
    import yaml

    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    unknown = sorted(set(document) - {"name", "channels", "dependencies"})
    odd = [entry for entry in document["dependencies"] if not isinstance(entry, str)]
    if unknown or odd:
        raise ValueError(f"{path}: the test double has no {unknown or odd}")
    return document


async def create(prefix: Path, document: dict[str, Any]) -> None:
    from rattler import Channel, Gateway, MatchSpec, VirtualPackage, solve
    from rattler.platform import Subdir

    if document["channels"] != ["conda-forge"]:
        raise ValueError(f"the test double has conda-forge only, not {document['channels']}")
    specs = [MatchSpec(text, strict=True) for text in document["dependencies"]]
    records = await solve(
        [Channel(os.environ["CONDA_DOUBLE_CHANNEL"])],
        specs,
        gateway=Gateway(cache_dir=cache() / "repodata"),
        platforms=[Subdir.current(), Subdir("noarch")],
        virtual_packages=VirtualPackage.detect(),
    )
    await link(prefix, records)


async def link(prefix: Path, records: list[Any]) -> None:
    from rattler import install

    await install(records, prefix, cache_dir=cache() / "pkgs", show_progress=False)
    (prefix / "conda-meta/history").touch()


def installed(prefix: Path) -> list[Any]:
    from rattler import PrefixRecord

    return [PrefixRecord.from_path(path) for path in sorted(prefix.glob("conda-meta/*.json"))]


def explicit(url: str) -> Any:
    """The record of a package named by its URL, as in a pin file: `file:///…#md5`."""
    import tempfile

    from rattler import PackageRecord, RepoDataRecord

    url, _, wanted = url.partition("#")
    path = Path(url.removeprefix("file://"))
    repodata = json.loads((path.parent / "repodata.json").read_text())
    entry = repodata["packages.conda"][path.name]
    if wanted and wanted not in (entry["md5"], entry["sha256"]):
        raise ValueError(f"{url} has another checksum than {wanted}")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as file:
        json.dump(entry, file)
        file.flush()
        record = PackageRecord.from_index_json(Path(file.name))
    return RepoDataRecord(record, path.name, path.as_uri(), path.parent.parent.as_uri())


def cache() -> Path:
    return Path(os.environ["CONDA_DOUBLE_CACHE"])


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of rattler's can crash an interpreter that finalizes
