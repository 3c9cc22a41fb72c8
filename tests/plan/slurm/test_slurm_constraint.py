"""Constraints as SLURM reads them; the expectations were put to sbatch of SLURM 22.05."""

from __future__ import annotations

import pytest

from gemmgrid.plan.slurm.constraint import ConstraintError, parse

ICE = {"icelake", "avx512"}
MILAN = {"milan"}


@pytest.mark.parametrize(
    ("text", "ice", "milan"),
    [
        ("icelake", True, False),
        ("icelake|milan", True, True),
        ("[icelake|milan]", True, True),
        ("icelake&avx512", True, False),
        ("icelake,avx512", True, False),
        ("icelake,milan", False, False),
        ("ICELAKE", False, False),
        # From left to right, without precedence: (milan|icelake)&avx512.
        ("milan|icelake&avx512", True, False),
        ("milan|(icelake&avx512)", True, True),
        ("icelake&avx512|milan", True, True),
        ("milan&avx512|icelake", True, False),
        ("(icelake&avx512|milan)", True, True),
        ("(milan|icelake)&(avx512|milan)", True, True),
        ("milan&(icelake|milan)|avx512", True, True),
        ("[icelake|milan]&avx512", True, False),
        ("avx512&[icelake|milan]", True, False),
        ("[milan|(icelake&avx512)]", True, True),
        ("(icelake|milan)*1&avx512", True, False),
    ],
)
def test_which_nodes_it_accepts(text, ice, milan):
    constraint = parse(text)
    assert constraint.nodes == 1
    assert (constraint.accepts(ICE), constraint.accepts(MILAN)) == (ice, milan)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        *(("icelake*1", 1), ("icelake*2", 2), ("icelake*2&avx512", 2), ("[icelake*2]", 2)),
        *(("(icelake|milan)*3", 3), ("[icelake*1&milan*1]", 2), ("[icelake*2&milan*3]", 5)),
        *(("[(icelake|milan)*1&avx512*1]", 2), ("avx512&[icelake*1]", 1)),
    ],
)
def test_how_many_nodes_it_gives_a_job(text, nodes):
    assert parse(text).nodes == nodes


def test_each_part_of_several_nodes_is_one_of_the_nodes():
    constraint = parse("[icelake*1&milan*1]")
    assert constraint.accepts(ICE)
    assert constraint.accepts(MILAN)
    assert not constraint.accepts({"avx512"})


def test_features_once_each_in_their_order():
    assert parse("b&(a|b)|c.d-e:f").features == ("b", "a", "c.d-e:f")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("icelake&&avx512", "'&' stands where a feature's name is expected"),
        ("(icelake", "the end stands where & or | is expected"),
        ("icelake)", "')' stands where & or | is expected"),
        ("icelake(avx512)", "'(' stands where & or | is expected"),
        ("", "the end stands where a feature's name is expected"),
        ("icelake&", "the end stands where a feature's name is expected"),
        ("icelake & avx512", "a space stands where & or | is expected"),
        ("!icelake", "SLURM has no 'not'"),
        ("[icelake&milan]", "needs a count behind every feature"),
        ("[icelake*1&milan]", "needs a count behind every feature"),
        ("[icelake*1|milan*1]", "counts and | do not go together"),
        ("[milan|icelake&avx512]", "& and | are mixed in square brackets"),
        ("[icelake|milan]*2", "'*' stands where & or | is expected"),
        ("[a|b]&[c|d]", "one pair of square brackets"),
        ("([a|b])", "none within parentheses"),
        ("((icelake))", "no parentheses within parentheses"),
        ("(icelake&(avx512|milan))", "no parentheses within parentheses"),
        ("(icelake*2)", "a count stands behind parentheses"),
        ("icelake*0", "'0' behind * is no number of nodes"),
        ("icelake*", "the end behind * is no number of nodes"),
    ],
)
def test_what_slurm_does_not_take(text, reason):
    with pytest.raises(ConstraintError) as error:
        parse(text)
    assert reason in str(error.value)
