"""Values from strangers: the right type or unknown, and always printable."""

from __future__ import annotations

import pytest

from gemmgrid.report.read.fields import Fields, clean, clean_lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("  two \n lines ", "two lines"),
        ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
        ("right\u202eleft", "right\ufffdleft"),
        ("null\x00", "null\ufffd"),
        ("lone \ud800", "lone \ufffd"),
        ("Größe ×", "Größe ×"),
    ],
)
def test_clean(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_clean_shortens_and_says_so() -> None:
    assert clean("x" * 50, 10) == "x" * 9 + "…"


def test_clean_lines_keeps_lines_and_the_end() -> None:
    assert clean_lines("a\n\x1bb\n") == "a\n\ufffdb"
    assert clean_lines("x" * 5000 + "end", 100).endswith("end")


def test_right_types_pass_without_a_word() -> None:
    fields = Fields({"a": {"b": "text", "n": 3, "f": 0.5, "l": [1, 2.5], "t": ["x"]}})
    assert fields.text("a.b") == "text"
    assert fields.integer("a.n") == 3
    assert fields.number("a.f") == 0.5
    assert fields.numbers("a.l") == [1, 2.5]
    assert fields.texts("a.t") == ["x"]
    assert fields.mapping("a")["n"] == 3
    assert fields.problems == []


def test_absent_is_unknown_without_a_word() -> None:
    fields = Fields({"a": None})
    assert fields.text("a.b.c") is None
    assert fields.number("x") is None
    assert fields.numbers("a") == []
    assert list(fields.parts("a")) == []
    assert fields.problems == []


@pytest.mark.parametrize(
    "value",
    [True, "1", [], {}, float("nan"), float("inf"), -1, 10**400],
)
def test_what_is_no_number_is_unknown_and_noted(value: object) -> None:
    fields = Fields({"a": {"n": value}})
    assert fields.number("a.n") is None
    assert len(fields.problems) == 1
    assert fields.problems[0].startswith("a.n is ")


@pytest.mark.parametrize("value", [1.5, 2**64, "3"])
def test_what_is_no_whole_number(value: object) -> None:
    fields = Fields({"n": value})
    assert fields.integer("n") is None
    assert fields.problems


@pytest.mark.parametrize("value", [[1, 0], [1, -2], [1, "2"], [True], [float("nan")], "12", {}])
def test_lists_with_anything_but_positive_numbers_are_refused(value: object) -> None:
    fields = Fields({"l": value})
    assert fields.numbers("l") == []
    assert fields.problems


def test_a_text_where_an_object_belongs() -> None:
    fields = Fields({"library": "OpenBLAS"})
    assert fields.text("library.name") is None
    assert fields.problems == ["library is 'OpenBLAS', not an object"]


def test_parts_share_their_problems_and_name_their_place() -> None:
    fields = Fields({"runs": [{"n": "x"}, 7]})
    numbers = [part.number("n") for part in fields.parts("runs")]
    assert numbers == [None]
    assert fields.problems == [
        "runs.0.n is 'x', not a finite number of at least 0",
        "runs.1 is 7, not an object",
    ]
