"""What the schema lets a run say about its SLURM job and about what its machine promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

SCHEMA = yaml.safe_load(
    (Path(__file__).parents[2] / "workflow/schemas/run.schema.yaml").read_text(encoding="utf-8")
)
SLURM = {
    "job_id": "123",
    "node": "ice1",
    "partition": "cpu",
    "features": ["icelake", "avx512"],
    "cluster": "toy",
    "account": None,
    "qos": "normal",
    "exclusive": True,
    "cpus_on_node": 64,
    "cpus_allocated": 64,
    "memory_mb": 4000,
    "gres": "gpu:h200:1",
    "restarts": 0,
    "affinity": [0, 1],
    "memory_limit_bytes": None,
    "unknown": {"account": "accounting is off"},
}
PROMISE = {"cpus": 64, "gpu": True, "platform": "linux-x86_64", "broken": ["2 may be used"]}


def problems(key: str, value: Any) -> list[str]:
    validator = Draft202012Validator(SCHEMA["properties"][key] | {"$defs": SCHEMA["$defs"]})
    return [error.message for error in validator.iter_errors(value)]


def test_both_are_optional_and_older_records_stay_valid() -> None:
    assert {"slurm", "promise"} <= SCHEMA["properties"].keys()
    assert not {"slurm", "promise"} & set(SCHEMA["required"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("slurm", None),
        ("slurm", SLURM),
        ("slurm", dict.fromkeys(SLURM) | {"unknown": {"node": "the job did not live to tell"}}),
        ("promise", None),
        ("promise", PROMISE),
        ("promise", {"cpus": None, "gpu": False, "broken": []}),
        ("host", {"id": None}),
    ],
)
def test_what_jobs_tell(key: str, value: Any) -> None:
    assert problems(key, value) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("slurm", {}),
        ("slurm", "ice1"),
        *(
            ("slurm", {name: value for name, value in SLURM.items() if name != left_out})
            for left_out in ("node", "job_id", "exclusive", "unknown")
        ),
        ("slurm", SLURM | {"job_id": 123}),
        ("slurm", SLURM | {"exclusive": "yes"}),
        ("slurm", SLURM | {"features": "icelake"}),
        ("slurm", SLURM | {"features": [1]}),
        ("slurm", SLURM | {"restarts": -1}),
        ("slurm", SLURM | {"cpus_on_node": 6.5}),
        ("slurm", SLURM | {"unknown": None}),
        ("promise", {}),
        ("promise", PROMISE | {"broken": "all"}),
        ("promise", PROMISE | {"broken": [1]}),
        ("promise", PROMISE | {"cpus": "64"}),
        ("promise", PROMISE | {"gpu": 1}),
    ],
)
def test_what_is_refused(key: str, value: Any) -> None:
    assert problems(key, value)
