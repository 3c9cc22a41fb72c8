"""What a wrong config says: file, line and key, what was found, what is allowed, what was meant."""

from __future__ import annotations

from datetime import date

import pytest
import yaml

from gemmgrid.plan import ConfigError, load
from gemmgrid.plan.config import validation
from tests.plan.conftest import ROOT

GOOD = "grid:\n  - routine: gemm\n    shapes: [64]\n    threads: 1\n"


def message(project, config, **more):
    with pytest.raises(ConfigError) as caught:
        project.plan(config, **more)
    return str(caught.value)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            GOOD + "samplng: {sample_s: 1}\n",
            "study.yaml, line 5, samplng: there is no key 'samplng' here. Allowed: study, machine, "
            "machines, seed, backends, select, grid, exclude, sampling, budget, evidence. "
            "Did you mean 'sampling'?",
        ),
        (
            GOOD + "    dtypes: [float32, flaot64]\n",
            "study.yaml, line 5, grid[0].dtypes[1]: found 'flaot64'. Allowed: float16, bfloat16, "
            "float32, float64, complex64, complex128. Did you mean 'float64'?",
        ),
        (
            GOOD + "    dtype: float32\n",
            "study.yaml, line 5, grid[0].dtype: there is no key 'dtype' here. Allowed: routine, "
            "backends, dtypes, shapes, threads, options. Did you mean 'dtypes'?",
        ),
        (
            GOOD + "    backends: [numpy-openblas, torch-cdua]\n",
            "study.yaml, line 5, grid[0].backends: there is no backend 'torch-cdua'. Allowed: ",
        ),
        (
            GOOD + "    options: {trans: nx}\n",
            "study.yaml, line 5, grid[0].options.trans: found 'nx'. Allowed: two letters of n, t",
        ),
        (
            GOOD + "    options: [{}, {tran: nt}]\n",
            "study.yaml, line 5, grid[0].options[1].tran: there is no key 'tran' here.",
        ),
        (
            GOOD.replace("threads: 1", "threads: [1, physcal]"),
            "study.yaml, line 4, grid[0].threads[1]: found 'physcal'. Allowed: a number of at "
            "least 1, 'all', 'physical' or 'doubling'. Did you mean 'physical'?",
        ),
        (
            GOOD.replace("threads: 1", "threads: 0"),
            "study.yaml, line 4, grid[0].threads: found 0. Allowed: a number of at least 1",
        ),
        (
            GOOD.replace("[64]", "[64, 0]"),
            "study.yaml, line 3, grid[0].shapes[1]: found 0. Allowed: a size such as 512",
        ),
        (
            GOOD.replace("[64]", "[64, 4x4]"),
            "study.yaml, line 3, grid[0].shapes[1]: gemm takes 3 dimensions, and '4x4' has 2.",
        ),
        (
            GOOD + "sampling:\n  sample_s: 0\n",
            "study.yaml, line 6, sampling.sample_s: found 0. Allowed: a number, above 0, at most "
            "3600.",
        ),
        (
            GOOD + "sampling:\n  invocations: two\n",
            "study.yaml, line 6, sampling.invocations: found 'two'. Allowed: a whole number, at "
            "least 1, at most 1000.",
        ),
        (
            GOOD + "sampling:\n  warmup_s: .nan\n",
            "study.yaml, line 6, sampling.warmup_s: found nan. Allowed: a finite number.",
        ),
        (
            GOOD + "sampling: {min_samples: 9, max_samples: 3}\n",
            "study.yaml, line 5, sampling.min_samples: found 9. Allowed: at most max_samples, 3.",
        ),
        (
            GOOD + "evidence: perhaps\n",
            "study.yaml, line 5, evidence: found 'perhaps'. Allowed: true or false.",
        ),
        (
            GOOD + "exclude:\n  - backend: torch-cpu\n",
            "study.yaml, line 6, exclude[0]: the key 'reason' is missing. Allowed: a sentence",
        ),
        (
            GOOD + "exclude:\n  - {backend: torch-cpux, reason: slow}\n",
            "study.yaml, line 6, exclude[0]: backend is 'torch-cpux'. Allowed: ",
        ),
        (
            GOOD + "exclude:\n  - {reason: slow}\n",
            "study.yaml, line 6, exclude[0]: found {'reason': 'slow'}. Allowed: a mapping of at "
            "least one condition and a reason.",
        ),
        ("grid: []\n", "study.yaml, line 1, grid: found []. Allowed: a list of blocks"),
        ("study: x\n", "the key 'grid' is missing. Allowed: a list of blocks"),
        ("grid:\n  - shapes: 4\n", "line 2, grid[0]: the key 'routine' is missing. Allowed: gemm"),
        (GOOD + "study: a/b\n", "study.yaml, line 5, study: found 'a/b'. Allowed: a name"),
        (GOOD + "machines: icelake\n", "there is no machine 'icelake' in config/machines.yaml."),
    ],
)
def test_one_problem(project, config, text):
    assert text in message(project, config)


def test_the_nearest_spelling_of_a_backend(project):
    text = message(project, GOOD + "    backends: numpy-openbals\n")
    assert text.endswith("Did you mean 'numpy-openblas'?")


def test_all_problems_at_once(project):
    text = message(project, GOOD + "    dtypes: float31\nseed: -1\nstdy: x\n")
    assert text.startswith("3 problems in the configuration:\n  - ")
    for word in ("dtypes: found 'float31'", "seed: found -1", "no key 'stdy'"):
        assert word in text


def test_a_problem_from_the_command_line_is_not_blamed_on_a_file(project):
    text = message(project, GOOD + "seed: 1\n", seed="x1")
    assert text.startswith("the command line (--config), seed: found 'x1'.")
    text = message(project, GOOD + "backends: auto\n", backends="torch-cpu,jax")
    assert text.startswith("the command line (--config), backends: there is no backend 'jax'.")
    text = message(project, GOOD + "machines: []\n", machines=["x"])
    assert text.startswith("the command line (--config), machines: there is no machine 'x'")
    text = message(project, GOOD + "select: ''\n", select="m=x")
    assert text.startswith("the command line (--config), select: m is 'x'.")
    text = message(project, GOOD + "study: a\n", sampling={"rouns": "3"})
    assert text.startswith("the command line (--config), sampling.rouns:")


def test_of_several_files_the_last_that_says_so_is_named(project):
    first, second = project.root / "a.yaml", project.root / "b.yaml"
    first.write_text(GOOD + "seed: -5\n")
    second.write_text("# nothing\nsampling:\n  interval: 7\n")
    config = {**yaml.safe_load(first.read_text()), **yaml.safe_load(second.read_text())}
    with pytest.raises(ConfigError) as caught:
        load(config, project.root, "venv", [first, second])
    assert "b.yaml, line 3, sampling.interval: found 7" in str(caught.value)
    assert "a.yaml, line 5, seed: found -5" in str(caught.value)


HOSTILE = ["../x", "a b", "$(touch x)", "`id`", "a;b", "a'b", 'a"b', "a/b", "-rf", "A", "a..b", "ä"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_could_leave_the_folder_or_the_shell_are_refused(project, name):
    for config in (
        {"machine": name},
        {"machines": [name]},
        {"backends": [name]},
        {"grid": [{"routine": "gemm", "shapes": 4, "backends": [name]}]},
    ):
        text = message(project, {**yaml.safe_load(GOOD), **config})
        assert f"{name!r} is not a name: lower-case letters, digits" in text


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("file", ["backends", "machines"])
def test_hostile_names_in_the_registries_are_refused(project, name, file):
    path = project.root / f"config/{file}.yaml"
    entry = {
        "backends": {"adapter": "numpy", "platforms": ["linux-x86_64"], "dtypes": ["float32"]},
        "machines": {"cpus": 4},
    }[file]
    path.write_text(yaml.safe_dump({"good": entry, name: entry}, sort_keys=False))
    text = message(project, GOOD)
    assert text.startswith(f"config/{file}.yaml, line ") and "is not a name" in text


def test_a_hostile_environment_is_refused(project):
    path = project.root / "config/backends.yaml"
    path.write_text(path.read_text() + "bad:\n  adapter: numpy\n  environment: ../../etc\n")
    path.write_text(path.read_text() + "  platforms: [linux-x86_64]\n  dtypes: [float32]\n")
    assert "bad.environment: '../../etc' is not a name" in message(project, GOOD)


def test_mistakes_in_the_registry(project):
    path = project.root / "config/backends.yaml"
    path.write_text(path.read_text().replace("adapter: jax", "adaptor: jax", 1))
    text = message(project, GOOD)
    assert "jax-cpu.adaptor: there is no key 'adaptor' here." in text
    assert "Did you mean 'adapter'?" in text
    assert "jax-cpu: the key 'adapter' is missing. Allowed: the name of a module" in text


def test_a_registry_that_is_not_yaml_or_not_there(project, monkeypatch):
    path = project.root / "config/backends.yaml"
    path.write_text("numpy: [1, 2\n")
    assert "config/backends.yaml" in message(project, GOOD)
    path.unlink()
    project.plan(GOOD)  # then the project's own serves
    monkeypatch.setattr("gemmgrid.system.project.PROJECT", project.root)
    assert "backends.yaml is missing: restore it" in message(project, GOOD)


def test_text_that_the_command_line_and_yaml_leave_where_numbers_are_meant(project):
    # `--config` gives text inside brackets, and YAML 1.1 reads 1e-2 as text.
    more = {"seed": "3", "sampling": {"interval": "1e-2", "invocations": "3"}}
    plan = project.plan({"grid": [{"routine": "gemm", "shapes": ["64"], "threads": "1"}]}, **more)
    assert plan.seed == 3
    assert (plan.settings["interval"], plan.settings["invocations"]) == (0.01, 3)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("fp32", "float32"), ("f64", "float64"), ("half", "float16"), ("Double", "float64")],
)
def test_other_names_of_dtypes_are_understood_in_the_message(project, written, meant):
    text = message(project, GOOD + f"    dtypes: [{written}]\n")
    assert f"Did you mean '{meant}'?" in text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("{alpha: 0}", "alpha is 0, which leaves no product"),
        ("{alpha: 0, beta: 0.5}", "alpha is 0, which leaves no product"),
        ("{alpha: 1.0e-43}", "the result in float32 would leave its range"),
    ],
)
def test_a_product_that_nobody_could_judge_is_refused(project, options, text):
    assert text in message(project, GOOD + f"    options: {options}\n")
    project.plan(GOOD + "    options: [{alpha: -2, beta: 0.5}, {alpha: 0.001}]\n")
    half = GOOD + "    dtypes: [float16]\n    options: {alpha: -5000}\n"
    assert "the result in float16 would leave its range" in message(project, half)


@pytest.mark.parametrize("key", ["machine", "study", "backends", "select"])
@pytest.mark.parametrize("value", [12, 1e5, 1.1, True, date(2026, 11, 1), ["numpy-*", 12]])
def test_a_text_that_did_not_arrive_as_text_is_refused_with_the_cure(project, key, value):
    text = message(project, {"grid": [{"routine": "gemm", "shapes": [64]}]}, **{key: value})
    assert f"{key}: " in text and "Quote it" in text and f"--config {key}='\"…\"'" in text


def test_settings_of_a_mapping_go_by_their_own_names(project):
    plan = project.plan(GOOD + "sampling: {invocations: 7}\n", rounds="5", cell_s=20)
    assert (plan.settings["rounds"], plan.settings["invocations"]) == (5, 7)
    assert plan.settings["budget_s"] == 20


def test_the_default_study_says_the_same_as_the_schema(project):
    study = yaml.safe_load((ROOT / "config/config.yaml").read_text(encoding="utf-8"))
    known = validation.schema("config")
    for key in ("seed", "evidence", "backends", "machine", "select"):
        assert study[key] == known["properties"][key]["default"], key
    for name in ("sampling", "budget"):
        defaults = {k: v["default"] for k, v in known["properties"][name]["properties"].items()}
        assert study[name] == defaults


def test_keys_left_empty_mean_their_defaults(project):
    plan = project.plan(GOOD + "exclude:\nselect:\nsampling:\nmachine:\n")
    assert plan.machine == "test-linux" and plan.settings["invocations"] == 5
