"""uv as pip's users expect it: found where it is, told what pip's own settings say.

uv reads neither pip's variables nor pip.conf, so a user who told pip where packages come from would
get them from elsewhere: PyPI's CUDA build of PyTorch, 3 GB, instead of the CPU wheel at hand.
"""

from __future__ import annotations

import configparser
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

TRANSLATED = {
    "index-url": (("UV_DEFAULT_INDEX", "UV_INDEX_URL"), " "),
    "extra-index-url": (("UV_INDEX", "UV_EXTRA_INDEX_URL"), " "),
    "find-links": (("UV_FIND_LINKS",), ","),
    "cert": (("SSL_CERT_FILE",), " "),
    "timeout": (("UV_HTTP_TIMEOUT",), " "),
    "trusted-host": (("UV_INSECURE_HOST",), " "),
}
"""pip's setting → uv's variables that would override it, the last of which is set; separator."""

SOURCES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
"""Variables by which a user says where packages come from."""


def command() -> list[str]:
    """How to start uv: beside this interpreter, as its module, or from the PATH; empty without."""
    beside = Path(sys.executable).with_name("uv")
    if os.access(beside, os.X_OK):
        return [str(beside)]
    if find_spec("uv"):
        return [sys.executable, "-m", "uv"]
    found = shutil.which("uv")
    return [found] if found else []


def environment(
    inherited: Mapping[str, str],
    config_files: Iterable[Path] | None = None,
    name: str = "",
) -> dict[str, str]:
    """The variables for uv: the inherited ones, and pip's settings where uv's own are not set.

    `name` is the environment's: on Linux PyPI's PyTorch is the CUDA build, 3 GB, so an environment
    named `…-cpu` takes PyTorch's own CPU builds, unless the user said where packages come from.
    """
    chosen = dict(inherited)
    for setting, value in pip_settings(inherited, config_files).items():
        names, separator = TRANSLATED[setting]
        if value and not any(inherited.get(own) for own in names):
            chosen[names[-1]] = separator.join(value.split())
            if setting == "extra-index-url":
                # pip takes the best version of all indexes; uv would stop at the first one that
                # has the package at all, even without the version that is pinned.
                chosen.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    if name.endswith("-cpu") and not any(chosen.get(source) for source in SOURCES):
        chosen.setdefault("UV_TORCH_BACKEND", "cpu")
    # A project's or virtual environment's own settings must not choose another Python for us.
    for unwanted in ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_PROJECT"):
        chosen.pop(unwanted, None)
    chosen.update(UV_NO_PROGRESS="1", NO_COLOR="1", UV_PYTHON_DOWNLOADS="never")
    return chosen


def pip_settings(
    inherited: Mapping[str, str], config_files: Iterable[Path] | None = None
) -> dict[str, str]:
    """What pip was told: its files in its own order, the later ones winning, then its variables."""
    settings: dict[str, str] = {}
    for file in pip_files(inherited) if config_files is None else config_files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue
        for section in ("global", "install"):
            if parser.has_section(section):
                settings.update(
                    {key: value for key, value in parser[section].items() if key in TRANSLATED}
                )
    for setting in TRANSLATED:
        variable = setting.upper().replace("-", "_")
        value = inherited.get(f"PIP_{variable}") or inherited.get(f"PIP_DEFAULT_{variable}")
        if value:
            settings[setting] = value
    return settings


def pip_files(inherited: Mapping[str, str]) -> list[Path]:
    """pip's configuration files, lowest precedence first: of the site, of the user, the named one.

    https://pip.pypa.io/en/stable/topics/configuration/
    """
    named = inherited.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path(inherited.get("HOME", "~")).expanduser()
    user = Path(inherited.get("XDG_CONFIG_HOME") or home / ".config")
    shared = [Path(one) / "pip/pip.conf" for one in ("/etc/xdg",)]
    files = [*shared, Path("/etc/pip.conf"), home / ".pip/pip.conf", user / "pip/pip.conf"]
    if sys.platform == "darwin":
        files[:1] = [Path("/Library/Application Support/pip/pip.conf")]
        files.append(home / "Library/Application Support/pip/pip.conf")
    if named:
        files.append(Path(named))
    return files
