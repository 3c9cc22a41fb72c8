from __future__ import annotations

import pytest

from gemmgrid.records.text import count, shorten


def test_a_number_has_its_noun() -> None:
    assert [count("cell", number) for number in (0, 1, 2)] == ["0 cells", "1 cell", "2 cells"]
    assert count("process", 1, "processes") == "1 process"
    assert count("process", 5, "processes") == "5 processes"


@pytest.mark.parametrize("width", range(1, 12))
def test_a_shortened_text_fits_and_says_that_it_was(width: int) -> None:
    for keep_end in (False, True):
        short = shorten("0123456789", width, keep_end)
        assert len(short) == min(width, 10)
        assert ("…" in short) == (width < 10)


def test_the_end_is_kept_where_it_tells_more() -> None:
    assert shorten("0123456789", 5) == "0123…"
    assert shorten("0123456789", 5, keep_end=True) == "01…89"
