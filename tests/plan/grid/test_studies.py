"""The configs that come with the project: all load, say all their keys, and ask what they say."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import yaml

from gemmgrid.plan.config.validation import schema
from gemmgrid.records.cell import DTYPES
from tests.plan.conftest import LINUX, LINUX_GPU, MAC, ROOT

CONFIG = ROOT / "config/config.yaml"
STUDIES = sorted((ROOT / "config/studies").glob("*.yaml"))
TWO_CORES = LINUX.__class__("two-cores", "linux-x86_64", cuda=False, cpus=2, cores=2)


def merged(study: Path | None):
    """What Snakemake makes of config.yaml and a study: mappings merge, everything else replaces."""
    config = yaml.safe_load(CONFIG.read_text())
    if study:
        for key, value in yaml.safe_load(study.read_text()).items():
            if isinstance(value, dict) and isinstance(config.get(key), dict):
                config[key] = {**config[key], **copy.deepcopy(value)}
            else:
                config[key] = value
    return config


@pytest.mark.parametrize(
    "study", [None, *STUDIES], ids=lambda path: path.stem if path else "default"
)
@pytest.mark.parametrize("target", [TWO_CORES, LINUX_GPU, MAC], ids=lambda target: target.name)
@pytest.mark.parametrize("deploy", ["venv", "conda"])
def test_every_study_plans_on_every_kind_of_machine(project, study, target, deploy):
    plan = project.on(target).plan(merged(study), deploy=deploy)
    assert plan.cells
    assert all(one.reason for one in plan.skipped)


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.stem)
def test_a_study_is_named_and_takes_over_no_exclusion_unawares(study):
    content = yaml.safe_load(study.read_text())
    assert content["study"] == study.stem
    assert {"grid", "exclude"} <= content.keys()


def test_the_ready_questions_are_there():
    wanted = {"exercise", "levels", "small-calls", "threads", "precision"}
    assert wanted <= {study.stem for study in STUDIES}


def test_config_yaml_says_every_key_with_a_comment_above_it():
    config = merged(None)
    properties = schema("config")["properties"]
    assert config.keys() == properties.keys()
    lines = CONFIG.read_text().splitlines()
    for key, part in properties.items():
        inner = part.get("properties", {}) if part.get("type") == "object" else {}
        if inner:
            assert config[key].keys() == inner.keys()
        for name, indent in [(key, ""), *((name, "  ") for name in inner)]:
            (number,) = [n for n, line in enumerate(lines) if re.match(f"{indent}{name}:", line)]
            assert lines[number - 1].strip().startswith("#"), name


def test_the_default_study_is_a_sweep_over_the_venv_backends(project):
    plan = project.on(TWO_CORES).plan(merged(None))
    assert {cell.backend for cell in plan.cells} == {
        *("numpy-openblas", "scipy-openblas", "cblas-openblas", "cblas-mkl"),
        *("torch-cpu", "jax-cpu", "mlx-cpu"),
    }
    assert {cell.cell.routine for cell in plan.cells} == {"gemm", "gemv", "dot"}
    sizes = {
        cell.cell.n
        for cell in plan.cells
        if (cell.backend, cell.cell.routine, cell.cell.dtype)
        == ("numpy-openblas", "gemm", "float32")
    }
    assert len(sizes) >= 3
    assert 20 <= len(plan.cells) <= 32
    assert all("MLX" in one.reason for one in plan.skipped)


def test_the_exercise_is_one_product_on_every_backend(project):
    plan = project.on(LINUX_GPU).plan(merged(ROOT / "config/studies/exercise.yaml"))
    slow = {cell.backend: cell.cell.shape for cell in plan.cells if cell.cell.n != 4096}
    assert slow == {"mlx-cpu": (1024, 1024, 1024)}, "estimated from a smaller product"
    assert {(c.cell.routine, c.cell.dtype, len(set(c.cell.shape))) for c in plan.cells} == {
        ("gemm", "float32", 1)
    }
    backends = [cell.backend for cell in plan.cells]
    assert len(backends) == len(set(backends)) and {"torch-cuda", "jax-cuda"} <= set(backends)
    assert [one.backend for one in plan.skipped] == ["mlx-cpu"]


def test_precision_asks_for_every_dtype(project):
    plan = project.plan(merged(ROOT / "config/studies/precision.yaml"))
    assert {cell.cell.dtype for cell in plan.cells if cell.backend == "torch-cpu"} == set(DTYPES)


def test_threads_asks_for_more_than_one_count(project):
    plan = project.on(TWO_CORES).plan(merged(ROOT / "config/studies/threads.yaml"))
    assert {cell.cell.threads for cell in plan.cells} == {1, 2}


def test_the_registry_has_the_promised_backends():
    entries = yaml.safe_load((ROOT / "config/backends.yaml").read_text())
    assert entries.keys() >= {
        *("numpy-openblas", "numpy-mkl", "numpy-blis", "numpy-accelerate", "scipy-openblas"),
        *("cblas-openblas", "cblas-mkl", "torch-cpu", "torch-cuda", "torch-mps"),
        *("mlx-cpu", "mlx-gpu", "jax-cpu", "jax-cuda"),
    }


@pytest.mark.parametrize("name", ["config", "backends", "machines"])
def test_the_schemas_are_schemas_and_refuse_unknown_keys(name):
    from jsonschema import Draft202012Validator

    document = schema(name)
    Draft202012Validator.check_schema(document)
    assert document["$schema"].endswith("2020-12/schema")

    def closed(part):
        if isinstance(part, dict):
            if "properties" in part:
                assert part.get("additionalProperties") is False, part
            for value in part.values():
                closed(value)

    closed({key: value for key, value in document.items() if key != "properties"})
    closed(document["properties"] if name == "config" else document["additionalProperties"])
