"""Generic resources: what nodes offer, what is asked for, and whether it is enough."""

from __future__ import annotations

import pytest

from gemmgrid.plan.slurm.gres import enough, offered, requested

NODE = offered("gpu:h200:2(S:0,1),gpu:l40s:1(S:1),nvme:no_consume:2T")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:h200:2(S:0-1)", ["gpu:h200:2"]),
        ("gpu:h200:2(S:0,1),mps:h200:200(S:0,1)", ["gpu:h200:2", "mps:h200:200"]),
        ("gpu:4", ["gpu:4"]),
        ("gpu", ["gpu:1"]),
        ("tmpdisk:2K", ["tmpdisk:2048"]),
        ("gpu::,gpu:2", ["gpu:2"]),
        *(("", []), ("N/A", []), ("none", [])),
    ],
)
def test_what_a_node_offers(text, expected):
    assert [str(one) for one in offered(text)] == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        *(("gpu", True), ("gpu:3", True), ("gpu:4", False), ("gpu:h200", True)),
        *(
            ("gpu:h200:2", True),
            ("gpu:h200:3", False),
            ("gpu:H200:1", False),
            ("gpu:a100:1", False),
        ),
        *(("gpu:h200:1,gpu:l40s:1", True), ("gpu:h200:1,gpu:l40s:2", False), ("nvme:1K", True)),
        *(("mps:1", False), ("gpu:0", True), ("none", True)),
    ],
)
def test_whether_it_is_enough(wanted, expected):
    assert enough(requested(wanted), NODE) is expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gpu:h200:1,gpu:1", "refuses 'gpu' with and without a type"),
        ("gpu:a:b:c", "'gpu:a:b:c' is not name, name:count or name:type:count"),
        ("gpu:", "'gpu:' is not name"),
    ],
)
def test_what_slurm_does_not_take(text, reason):
    with pytest.raises(ValueError, match=reason):
        requested(text)
