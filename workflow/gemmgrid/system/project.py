"""The project's own files: config/, envs/ and schemas beside the code, or in the installed package.

A run's folder is the working directory: what a user has put there (config/backends.yaml, an
environment) comes before the project's own file of that name, and what is made goes there.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder gemmgrid of the code that runs."""
INSTALLED = PACKAGE / "project"
"""Where `pip install` puts config/, envs/ and schemas."""
PROJECT = INSTALLED if INSTALLED.is_dir() else PACKAGE.parents[1]
SCHEMAS = INSTALLED / "schemas" if INSTALLED.is_dir() else PACKAGE.parent / "schemas"


def importable(folder: Path) -> Path:
    """What an interpreter of another environment needs on its path to import this package, and no
    more: where the package is installed, its neighbours are other packages, so a link in `folder`.
    """
    if PROJECT != INSTALLED:
        return PACKAGE.parent
    (folder / PACKAGE.name).symlink_to(PACKAGE)
    return folder


def find(folder: Path, name: str | Path) -> Path:
    """The file of that name (`envs/numpy-mkl.txt`) under `folder`, else the project's own."""
    theirs = folder / name
    return theirs if theirs.exists() else PROJECT / name
