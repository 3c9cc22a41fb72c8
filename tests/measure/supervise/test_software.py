"""The software part of a context: read from files, the same both times, no backend started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.measure.supervise import current_context, software
from gemmgrid.records.context import changes

SPEC = {"adapter": "numpy", "device": "cpu", "options": {"library": "openblas"}}


def venv(folder: Path, **versions: str) -> Path:
    """A folder laid out as a virtual environment with these packages."""
    site = folder / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\nversion_info = 3.11.7\n")
    for name, version in versions.items():
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n")
    return folder


def test_packages_of_a_virtual_environment(tmp_path: Path) -> None:
    prefix = venv(tmp_path / "env", numpy="2.4.6", scipy_openblas64="0.3.34")
    assert software.installed(prefix) == {
        "numpy": "2.4.6 cp311-cp311-linux_x86_64",
        "scipy-openblas64": "0.3.34 cp311-cp311-linux_x86_64",
    }
    assert software.python_of(prefix) == "3.11.7"


def test_packages_of_conda_and_what_pip_added(tmp_path: Path) -> None:
    prefix = venv(tmp_path / "env", numpy="2.4.6", added="1.0")
    (prefix / "pyvenv.cfg").unlink()
    infos = prefix / "lib/python3.11/site-packages"
    (infos / "numpy-2.4.6.dist-info/INSTALLER").write_text("conda\n")
    (infos / "added-1.0.dist-info/INSTALLER").write_text("pip\n")
    (prefix / "conda-meta").mkdir()
    for stem in ("numpy-2.4.6-py311h_0", "libblas-3.9.0-31_mkl", "python-3.11.7-h_cpython"):
        (prefix / f"conda-meta/{stem}.json").write_text("{}")
    assert software.installed(prefix) == {
        "added": "1.0 cp311-cp311-linux_x86_64",
        "libblas": "3.9.0 31_mkl",
        "numpy": "2.4.6 py311h_0",
        "python": "3.11.7 h_cpython",
    }
    assert software.python_of(prefix) == "3.11.7"


def test_what_is_installed_agrees_with_importlib() -> None:
    """The folders' names say what importlib.metadata says, in the environment of this test."""
    from importlib import metadata

    found = software.installed(Path(sys.prefix))
    assert found is not None
    for name in ("numpy", "pandas", "snakemake", "jsonschema"):
        assert found[name].split()[0] == metadata.version(name)


def test_no_environment_is_no_packages(tmp_path: Path) -> None:
    assert software.installed(tmp_path / "gone") is None
    context = software.backend_context(SPEC, {}, "venv", str(tmp_path / "gone"), None)
    assert context["packages"] is None
    assert "no environment" in context["unknown"]["packages"]


def test_a_fingerprint_finds_another_build(tmp_path: Path) -> None:
    data = bytearray(range(256)) * 8192
    one, two = tmp_path / "one.so", tmp_path / "two.so"
    one.write_bytes(data)
    two.write_bytes(data)
    assert software.fingerprint(one) == software.fingerprint(two)
    two.write_bytes(bytes(reversed(data)))
    assert software.fingerprint(one) != software.fingerprint(two)
    two.write_bytes(data + b"\0")
    assert software.fingerprint(one) != software.fingerprint(two)
    assert software.fingerprint(tmp_path / "gone.so") is None


def test_a_touched_file_is_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / "lib.so"
    file.write_bytes(b"x" * 100)
    before = software.fingerprint(file)
    file.unlink()
    file.write_bytes(b"x" * 100)
    assert software.fingerprint(file) == before


def test_paths_are_short_and_lead_back(tmp_path: Path) -> None:
    inside = tmp_path / "env/lib/libblas.so"
    short = software.short_path(str(inside), str(tmp_path / "env"))
    assert short == "lib/libblas.so"
    assert software.long_path(short, str(tmp_path / "env")) == inside
    home = Path("~/x/libblas.so").expanduser()
    assert software.short_path(str(home), None) == "~/x/libblas.so"
    assert software.long_path("~/x/libblas.so", None) == home


def test_a_chosen_gpu_or_path_is_no_context() -> None:
    variables = {"OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": "3", "LD_LIBRARY_PATH": "/x"}
    assert software.in_force(variables) == {"OMP_NUM_THREADS": "2"}


def ask(prefix: Path | None, **more: Any) -> dict[str, Any]:
    backend: dict[str, Any] = {
        **SPEC,
        **{"variables": {}, "deploy": "venv", "environment": "numpy-openblas"},
        **{"python": sys.executable, "prefix": str(prefix) if prefix else None},
        **{"threads": [1, 2], "packages": [], "libraries": []},
    }
    return {"machine": "here", "backends": {"numpy-openblas": backend | more}}


def test_now_is_what_a_run_would_record(tmp_path: Path) -> None:
    """The same functions read both sides, so that nothing is stale by itself."""
    prefix = venv(tmp_path / "env", numpy="2.4.6")
    found = current_context.look(ask(prefix, libraries=["lib/gone.so"]))
    backend = found["backends"]["numpy-openblas"]
    recorded = software.backend_context(SPEC, {}, "venv", str(prefix), backend["context"]["lock"])
    assert changes({"backend": recorded}, {"backend": backend["context"]}) == {}
    assert backend["files"] == {"lib/gone.so": None}
    assert backend["by_threads"]["2"]["OMP_NUM_THREADS"] == "2"
    assert found["host"]["kernel"]
    assert found["devices"] == {}


def test_a_changed_package_is_seen_without_a_marker(tmp_path: Path) -> None:
    prefix = venv(tmp_path / "env", numpy="2.4.5")
    before = current_context.look(ask(prefix))["backends"]["numpy-openblas"]["context"]
    site = prefix / "lib/python3.11/site-packages"
    (site / "numpy-2.4.5.dist-info").rename(site / "numpy-2.4.6.dist-info")
    after = current_context.look(ask(prefix))["backends"]["numpy-openblas"]["context"]
    found = changes({"backend": before}, {"backend": after})
    assert list(found) == ["backend.packages.numpy"]


def test_where_no_environment_is_nothing_is_claimed(tmp_path: Path) -> None:
    backend = current_context.look(ask(tmp_path / "gone", libraries=["x"]))["backends"][
        "numpy-openblas"
    ]
    assert backend["built"] is False
    assert "packages" not in backend["context"] and backend["files"] == {}


def test_an_interpreter_at_hand_is_asked_for_what_the_run_named() -> None:
    asked = ask(None, deploy="none", packages=["numpy", "no-such-package"])
    backend = current_context.look(asked)["backends"]["numpy-openblas"]
    assert list(backend["context"]["packages"]) == ["numpy"]
    assert backend["context"]["python"].startswith("3.")


@pytest.mark.parametrize("by_file", [False, True])
def test_the_command(tmp_path: Path, by_file: bool) -> None:
    text = json.dumps(ask(venv(tmp_path / "env", numpy="2.4.6")))
    if by_file:
        (tmp_path / "request.json").write_text(text)
        text = f"@{tmp_path / 'request.json'}"
    out = tmp_path / "now/here.json"
    assert current_context.main(["--request", text, "--out", str(out)]) == 0
    assert json.loads(out.read_text())["machine"] == "here"


def test_it_needs_the_standard_library_only(tmp_path: Path) -> None:
    """Run by an interpreter without any package, as a node may have it."""
    text = json.dumps(ask(venv(tmp_path / "env", numpy="2.4.6")))
    package = Path(current_context.__file__).resolve().parents[3]
    code = (
        f"import sys; sys.path.insert(0, {str(package)!r}); "
        "from gemmgrid.measure.supervise.current_context import main; "
    )
    code += "main(sys.argv[1:]); print([m for m in ('numpy', 'yaml') if m in sys.modules])"
    command = [sys.executable, "-I", "-S", "-c", code, "--request", text, "--out"]
    done = subprocess.run(
        [*command, str(tmp_path / "out.json")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
