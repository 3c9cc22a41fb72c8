"""uv is told what pip's variables and files say, where uv's own variables say nothing."""

from __future__ import annotations

import os

import pytest

from gemmgrid.plan.environments import uv


def told(tmp_path, content="", **inherited):
    file = tmp_path / "pip.conf"
    file.write_text(content)
    return uv.environment(inherited, [file])


@pytest.mark.parametrize(
    ("pip", "expected"),
    [
        ({"PIP_FIND_LINKS": "/a /b"}, {"UV_FIND_LINKS": "/a,/b"}),
        ({"PIP_INDEX_URL": "https://x/simple"}, {"UV_INDEX_URL": "https://x/simple"}),
        (
            {"PIP_EXTRA_INDEX_URL": "https://y https://z"},
            {
                "UV_EXTRA_INDEX_URL": "https://y https://z",
                "UV_INDEX_STRATEGY": "unsafe-best-match",
            },
        ),
        ({"PIP_CERT": "/ca.pem"}, {"SSL_CERT_FILE": "/ca.pem"}),
        ({"PIP_TIMEOUT": "99"}, {"UV_HTTP_TIMEOUT": "99"}),
        ({"PIP_DEFAULT_TIMEOUT": "99"}, {"UV_HTTP_TIMEOUT": "99"}),
        ({"PIP_TRUSTED_HOST": "a b"}, {"UV_INSECURE_HOST": "a b"}),
    ],
)
def test_pips_variables(tmp_path, pip, expected):
    assert told(tmp_path, **pip).items() >= expected.items()


@pytest.mark.parametrize(
    ("pip", "own"),
    [
        ({"PIP_FIND_LINKS": "/a"}, {"UV_FIND_LINKS": "/mine"}),
        ({"PIP_INDEX_URL": "https://x"}, {"UV_DEFAULT_INDEX": "https://mine"}),
        ({"PIP_EXTRA_INDEX_URL": "https://x"}, {"UV_INDEX": "https://mine"}),
    ],
)
def test_uvs_own_variables_win(tmp_path, pip, own):
    chosen = told(tmp_path, **pip, **own)
    assert chosen.items() >= own.items()
    assert not {"UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_INDEX_STRATEGY"} & chosen.keys()


def test_pips_file(tmp_path):
    content = (
        "[global]\nfind-links = /a\n  /b\nindex-url = https://x\n[install]\nindex-url=https://y\n"
    )
    assert (
        told(tmp_path, content).items()
        >= {
            "UV_FIND_LINKS": "/a,/b",
            "UV_INDEX_URL": "https://y",
        }.items()
    )
    assert told(tmp_path, content, PIP_INDEX_URL="https://z")["UV_INDEX_URL"] == "https://z"
    assert "UV_FIND_LINKS" not in told(tmp_path, "[not an ini file")


def test_where_pips_files_are(tmp_path):
    named = {"HOME": "/h", "PIP_CONFIG_FILE": "/etc/mine.conf"}
    files = [str(file) for file in uv.pip_files(named)]
    assert files.index("/h/.pip/pip.conf") < files.index("/h/.config/pip/pip.conf")
    assert files[-1] == "/etc/mine.conf"
    assert uv.pip_files({"PIP_CONFIG_FILE": os.devnull}) == []


def test_cpu_environments_take_pytorchs_cpu_build_unless_the_user_has_own_sources(tmp_path):
    file = tmp_path / "pip.conf"
    file.write_text("")

    def backend(name, **inherited):
        return uv.environment(inherited, [file], name=name).get("UV_TORCH_BACKEND")

    assert backend("torch-cpu") == "cpu"
    assert backend("torch-cpu", UV_TORCH_BACKEND="cu130") == "cu130"
    assert backend("torch-cuda") is None
    assert backend("torch-cpu", PIP_FIND_LINKS="/wheels") is None
    assert backend("torch-cpu", UV_INDEX="https://mine") is None


def test_no_other_python_is_chosen_or_downloaded(tmp_path):
    chosen = told(tmp_path, VIRTUAL_ENV="/v", UV_PYTHON="3.8", CONDA_PREFIX="/c")
    assert not {"VIRTUAL_ENV", "UV_PYTHON", "CONDA_PREFIX"} & chosen.keys()
    assert chosen["UV_PYTHON_DOWNLOADS"] == "never"
