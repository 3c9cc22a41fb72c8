"""PyPI's wheels as conda packages: their files moved to where conda has them."""

from __future__ import annotations

import configparser
import email
import zipfile
from collections.abc import Callable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from tests.conda.channel.package import PLACEHOLDER, Package
from tests.conda.channel.python import SERIES, SITE

TAG = f"py{SERIES.replace('.', '')}"
NAMES = {"torch": "pytorch", "seaborn": "seaborn-base", "matplotlib": "matplotlib-base"}
"""What conda-forge calls a package of PyPI, where the names differ."""
SCRIPT = """#!{prefix}/bin/python
import sys
from {module} import {name}
if __name__ == "__main__":
    sys.exit({call}())
"""


def converted(
    wheel: Path,
    name: str | None = None,
    depends: list[str] | None = None,
    build: str | None = None,
    wanted: Callable[[str], bool] = lambda path: True,
) -> Package:
    """A wheel as a conda package.

    name      the package's name in conda, where it is another
    depends   beside Python, what it depends on; the wheel's own requirements by default
    build     its build string
    wanted    which of its files are kept, by their path in the prefix
    """
    own, version, _, tags = parse_wheel_filename(wheel.name)
    pure = all(tag.platform == "any" for tag in tags)
    site = "site-packages" if pure else SITE
    python = ["python"] if pure else ["python", f"python_abi {SERIES}.*"]
    package = Package(
        name or conda_name(own),
        version.public,
        build or ("pyhtest_0" if pure else f"{TAG}htest_0"),
        depends=[*python, *(requirements(wheel) if depends is None else depends)],
        noarch_python=pure,
    )
    points: list[str] = []
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = _place(entry.filename, site, pure)
            if entry.is_dir() or path is None or not wanted(path):
                continue
            content = archive.read(entry)
            if content.startswith(b"#!python") and "/scripts/" in entry.filename:
                content = f"#!{PLACEHOLDER}/bin/python".encode() + content[len("#!python") :]
                package.prefixed.add(path)
            if entry.external_attr >> 16 & 0o111:
                package.executable.add(path)
            if path.endswith(".dist-info/entry_points.txt"):
                points = _console_scripts(content.decode())
            package.files[path] = content
    if pure:
        package.entry_points = points
    else:
        for point in points:
            _add_script(package, point)
    return package


def conda_name(name: str) -> str:
    """conda-forge's name of a package of PyPI."""
    plain = canonicalize_name(name)
    return NAMES.get(plain, plain)


def requirements(wheel: Path) -> list[str]:
    """What a wheel requires here, as conda's specs: `numpy >=1.25,<3`."""
    with zipfile.ZipFile(wheel) as archive:
        [path] = [
            name
            for name in archive.namelist()
            if name.count("/") == 1 and name.endswith(".dist-info/METADATA")
        ]
        metadata = email.message_from_bytes(archive.read(path))
    wanted = map(Requirement, metadata.get_all("Requires-Dist") or [])
    return [
        f"{conda_name(one.name)} {one.specifier}".strip()
        for one in wanted
        if one.marker is None or one.marker.evaluate({"extra": ""})
    ]


def _place(name: str, site: str, pure: bool) -> str | None:
    """Where a wheel's member lies in a prefix; None for what conda does not have."""
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        return f"{site}/{name}"
    kind, _, rest = rest.partition("/")
    scripts = "python-scripts" if pure else "bin"
    folders = {"purelib": f"{site}/", "platlib": f"{site}/", "scripts": f"{scripts}/", "data": ""}
    return f"{folders[kind]}{rest}" if kind in folders else None


def _console_scripts(text: str) -> list[str]:
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    if not parser.has_section("console_scripts"):
        return []
    return [
        f"{name} = {target.split('[')[0].strip()}"
        for name, target in parser["console_scripts"].items()
    ]


def _add_script(package: Package, point: str) -> None:
    name, target = (part.strip() for part in point.split("=", 1))
    module, call = target.split(":")
    text = SCRIPT.format(prefix=PLACEHOLDER, module=module, name=call.split(".")[0], call=call)
    package.files[f"bin/{name}"] = text.encode()
    package.prefixed.add(f"bin/{name}")
