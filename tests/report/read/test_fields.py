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


def test_right_types_are_read() -> None:
    fields = Fields({"a": {"b": "text", "n": 3, "f": 0.5, "l": [1, 2.5], "t": ["x"], "y": False}})
    assert fields.text("a.b") == "text"
    assert fields.integer("a.n") == 3
    assert fields.number("a.f") == 0.5
    assert fields.sequence("a.l") == [1, 2.5]
    assert fields.texts("a.t") == ["x"]
    assert fields.mapping("a")["n"] == 3
    assert fields.truth("a.y") is False


def test_absent_is_unknown() -> None:
    fields = Fields({"a": None})
    assert (fields.text("a.b.c"), fields.number("x"), fields.truth("a.y")) == (None, None, None)
    assert (fields.sequence("a"), list(fields.parts("a")), fields.mapping("a")) == ([], [], {})


@pytest.mark.parametrize(
    "value",
    [True, "1", [], {}, float("nan"), float("inf"), -1, 10**400],
)
def test_what_is_no_number_is_unknown(value: object) -> None:
    fields = Fields({"a": {"n": value}})
    assert (fields.number("a.n"), fields.integer("a.n")) == (None, None)


@pytest.mark.parametrize("value", [1.5, 2**64, "3"])
def test_what_is_no_whole_number(value: object) -> None:
    assert Fields({"n": value}).integer("n") is None


def test_a_text_where_an_object_belongs() -> None:
    assert Fields({"library": "OpenBLAS"}).text("library.name") is None


def test_parts_are_the_objects_of_a_list() -> None:
    fields = Fields({"runs": [{"n": "x"}, 7, {"n": 2}]})
    assert [part.number("n") for part in fields.parts("runs")] == [None, 2]
