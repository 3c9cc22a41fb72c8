"""What the variants are made of: Debian's BLAS libraries, and a NumPy on a generic libblas."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conda.channel.contents import KEPT, ROOT
from tests.conda.channel.python import VERSION

PACKAGES = (
    *("libopenblas0-pthread", "libblis4-pthread", "libblas3", "liblapack3"),
    *("libgfortran5", "libquadmath0", "libblas-dev"),
)
LIBRARIES = "usr/lib/x86_64-linux-gnu"
HEADERS = "usr/include/x86_64-linux-gnu"
PKG_CONFIG = """Name: {name}
Description: the generic one
Version: 3.11.0
Libs: -L{folder} -l{library} -Wl,-rpath-link,{folder}
Cflags: -I{folder}
"""


def debian() -> Path:
    """A folder with the unpacked packages; nothing is installed. Needs apt-get's package lists."""
    place = KEPT / "debian"
    if not place.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="debian-", dir=KEPT))
        subprocess.run(["apt-get", "--quiet", "download", *PACKAGES], cwd=work, check=True)
        for package in work.glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, work / "root"], check=True)
        (work / "root").rename(place)
        shutil.rmtree(work)
    return place


def version_of(package: str) -> str:
    """The upstream version of a Debian package: `0.3.21+ds-4` is 0.3.21."""
    asked = ["apt-cache", "show", "--no-all-versions", package]
    lines = subprocess.check_output(asked, text=True).splitlines()
    full = next(line.split()[1] for line in lines if line.startswith("Version:"))
    return full.partition("-")[0].partition("+")[0]


def numpy_wheel() -> Path:
    """NumPy's wheel, built from source against libblas.so.3 and liblapack.so.3: takes minutes."""
    pin = (ROOT / "envs/numpy-openblas.txt").read_text().splitlines()[-1]
    place = KEPT / f"numpy-on-libblas-{pin.partition('==')[2]}-{VERSION}"
    if not place.exists():
        work = Path(tempfile.mkdtemp(prefix="numpy-", dir=KEPT))
        settings = ["blas=blas", "lapack=lapack", "allow-noblas=false"]
        # NumPy's own vector loops have no part in a product; without them the build is shorter.
        settings += ["cpu-dispatch=none", "disable-svml=true"]
        command = [sys.executable, "-m", "pip", "wheel", "--no-cache-dir", "--no-deps"]
        command += ["--no-binary", "numpy", "--wheel-dir", str(work / "out"), pin]
        command += [f"-Csetup-args=-D{setting}" for setting in settings]
        found = {"PKG_CONFIG_PATH": str(_generic(work / "generic"))}
        subprocess.run(command, env={**os.environ, **found}, check=True)
        (work / "out").rename(place)
        shutil.rmtree(work)
    [wheel] = place.glob("*.whl")
    return wheel


def _generic(folder: Path) -> Path:
    """A folder with pkg-config's files, headers and libraries of a BLAS that any can replace."""
    folder.mkdir()
    root = debian()
    for header in (root / HEADERS).glob("cblas*.h"):
        shutil.copy(header, folder)
    shutil.copy(folder / "cblas-netlib.h", folder / "cblas.h")
    libraries = {"blas": "blas/libblas.so.3", "lapack": "lapack/liblapack.so.3"}
    for name, path in libraries.items():
        for link in (f"lib{name}.so", f"lib{name}.so.3"):
            (folder / link).symlink_to(root / LIBRARIES / path)
    for name in ("libgfortran.so.5", "libquadmath.so.0"):
        (folder / name).symlink_to(root / LIBRARIES / name)
    for name, library in {"blas": "blas", "cblas": "blas", "lapack": "lapack"}.items():
        text = PKG_CONFIG.format(name=name, folder=folder, library=library)
        (folder / f"{name}.pc").write_text(text)
    return folder
