"""How environments are made, and what to do where conda is missing or makes none."""

from __future__ import annotations

import pytest

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.environments.choice import advice, choose
from tests.plan.conftest import block


@pytest.mark.parametrize(
    ("wanted", "use_conda", "made"),
    [(None, False, "venv"), ("none", False, "none"), ("conda", False, "conda")],
)
def test_without_use_conda_the_config_says_it(wanted, use_conda, made):
    assert choose(wanted, use_conda) == made


@pytest.mark.parametrize("wanted", ["pip", "", 3, True])
def test_another_word_is_refused(wanted):
    with pytest.raises(ConfigError, match=r"--config deploy: found .*allowed: venv, conda, none"):
        choose(wanted, False)


def test_use_conda_without_conda_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no `conda` on the PATH") as error:
        choose(None, True)
    assert "leave out --use-conda" in str(error.value)
    assert choose(None, True, inside_job=True) == "conda"
    monkeypatch.setenv("BASH_FUNC_conda%%", "() { :; }")
    assert choose(None, True) == "conda"


def test_advice_names_who_needs_the_environment(project):
    plan = project.plan(
        {"machine": "here", "grid": [block(backends=["numpy-openblas", "scipy-openblas"])]}
    )
    message = "CreateCondaEnvironmentException:\nCould not create conda environment from {}.yaml:"
    told = advice(message.format("/x/envs/scipy-openblas"), plan)
    assert "nothing was measured now: scipy-openblas needs it." in told
    assert told.endswith("--config backends=numpy-openblas")
    assert advice(message.format("/x/envs/report"), plan) == ""
    assert advice("something else", plan) == ""
