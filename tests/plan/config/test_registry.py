"""Variants: the same backend under other variables and options."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.config.registry import load_registry, resolve

ROOT = Path(__file__).resolve().parents[3]
FILE = """
torch-cpu:
  adapter: torch
  platforms: [linux-x86_64]
  dtypes: [float32]
  variables: {OMP_WAIT_POLICY: PASSIVE}
  options: {compile_mode: default}
  variants:
    VARIANT:
      variables: {MKL_CBWR: AVX2}
"""


def registry(folder: Path, variant: str = "cbwr"):
    file = folder / "backends.yaml"
    file.write_text(FILE.replace("VARIANT", variant))
    return load_registry(ROOT, file)


def test_a_variant_is_a_backend_with_its_own_variables_beside_those_of_its_entry(tmp_path):
    found = registry(tmp_path)["torch-cpu.cbwr"]
    assert found.variables == {"OMP_WAIT_POLICY": "PASSIVE", "MKL_CBWR": "AVX2"}
    assert found.options == {"compile_mode": "default"}
    assert (found.environment, found.variant_of) == ("torch-cpu", "torch-cpu")


def test_only_a_name_or_a_pattern_with_a_dot_means_a_variant(tmp_path):
    known = registry(tmp_path)
    for plain in ("auto", "torch-*", "*"):
        assert [name for name, _ in resolve(plain, known)] == ["torch-cpu"]
    for dotted in ("torch-cpu.cbwr", "*.cbwr", "torch-*.*"):
        assert [name for name, _ in resolve(dotted, known)] == ["torch-cpu.cbwr"]


def test_a_variants_name_must_fit_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="variants"):
        registry(tmp_path, "../cbwr")


def test_every_variant_of_the_registry_changes_something():
    known = load_registry(ROOT)
    variants = [entry for entry in known.values() if entry.variant_of]
    assert variants
    for entry in variants:
        base = known[entry.variant_of]
        assert (entry.variables, entry.options) != (base.variables, base.options)
