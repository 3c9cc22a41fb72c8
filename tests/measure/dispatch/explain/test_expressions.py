"""The little language of `explain`: what it takes, what it refuses, that it runs nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgrid.measure.dispatch.explain.expressions import FUNCTIONS, ExpressionError, parse

OPERANDS = {
    "A": np.arange(9.0).reshape(3, 3),
    "B": np.arange(9.0, 18.0).reshape(3, 3),
    "x": np.arange(3.0),
    "y": np.arange(3.0, 6.0),
    "P": np.arange(18.0).reshape(2, 3, 3),
    "Q": np.arange(18.0, 36.0).reshape(2, 3, 3),
}
NUMPY = {name: getattr(np, name.removeprefix("np.")) for name in FUNCTIONS["numpy"]}


@pytest.mark.parametrize(
    "text",
    ["A @ B", "A @ B.T", "A.T @ x", "x @ y", "P @ Q.mT", "P @ B", "A[::-1] @ B",
     "A[:, ::2] @ B[1:]",
     "x[::-1] @ y", "A @ x[0:3]", "A[-1] @ x", "A @ B.conj().T", "A @ B @ x", "(A @ B).T",
     "np.dot(A, B)", "np.matmul(A, B.T)", "np.inner(x, y)", "np.outer(x, y)", "np.vdot(A, B)",
     "np.einsum('ij,jk->ik', A, B)", "np.einsum('ij,jk->ik', A, B, optimize=True)",
     "np.tensordot(P, B, 1)", "np.tensordot(A, B, axes=1)", "np.dot(P, B)", " A@B "],
)  # fmt: skip
def test_a_sentence_of_the_language_means_what_python_means(text: str) -> None:
    expression = parse(text, "numpy")
    value = expression.evaluate(OPERANDS, NUMPY)
    assert np.array_equal(value, eval(text, {"np": np, **OPERANDS}))


@pytest.mark.parametrize(
    ("text", "where", "word"),
    [
        ("__import__('os').system('true') @ A", 0, "the function"),
        ("A @ open('x')", 4, "'open'"),
        ("A + B", 0, "operator"),
        ("A @ C", 4, "the name 'C'"),
        ("A.__class__ @ B", 0, ".__class__"),
        ("A @ B.dot(A)", 4, "the function 'B.dot'"),
        ("np.load('secret') @ A", 0, "'np.load'"),
        ("np.dot(A, out=B)", 14, "the option 'out'"),
        ("np.dot('A', B)", 7, "a literal"),
        ("A[B] @ B", 2, "an index is a whole number"),
        ("A[::0] @ B", 4, "a step of 0"),
        ("A[1.5] @ B", 2, "an index"),
        ("(lambda: A)() @ B", 0, "the function"),
        ("[A @ B for A in P]", 0, "this"),
        ("A @ 3", 4, "this"),
        ("A if x else B", 0, "this"),
        ("f'{A}' @ B", 0, "this"),
        ("np.dot(*A)", 7, "this"),
        ("np.dot(**A)", 9, "the option"),
        ("A.T.conj(B) @ A", 0, "the function"),
        ("B", 0, "nothing is multiplied"),
        ("torch.mm(A, B)", 0, "'torch.mm'"),
    ],
)
def test_everything_else_is_refused_with_its_place(text: str, where: int, word: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, "numpy")
    lines = str(caught.value).splitlines()
    assert word in lines[0]
    assert lines[1] == f"  {text}"
    assert lines[2].index("^") - 2 == where
    assert "operands A, B, x, y, P, Q" in lines[3]
    assert "np.matmul" in lines[4]


@pytest.mark.parametrize(
    "text", ["", "   ", "A @ B\n", "A @ Ä", "A @ B;import os", "A" + " @ A" * 80]
)
def test_odd_texts_are_refused_or_trimmed(text: str) -> None:
    if text.strip() == "A @ B":
        assert parse(text, "numpy").text == "A @ B"
        return
    with pytest.raises(ExpressionError):
        parse(text, "numpy")


def test_deep_nesting_is_refused_before_it_is_carried_out() -> None:
    with pytest.raises(ExpressionError, match="levels deep"):
        parse("(" * 20 + "A" + " @ A)" * 20, "numpy")
    with pytest.raises(ExpressionError):
        parse("(" * 90 + "A" + ")" * 90 + " @" * 5, "numpy")


def test_nothing_in_a_refused_text_has_run(tmp_path: object) -> None:
    target = f"{tmp_path}/written"
    for text in (f"open({target!r}, 'w') @ A", f"A @ __import__('os').mkdir({target!r})"):
        with pytest.raises(ExpressionError):
            parse(text, "numpy")
    import os

    assert not os.path.exists(target)  # noqa: PTH110


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("A @ B", ("gemm", "nn")),
        ("A.T @ B.T", ("gemm", "tt")),
        ("A @ B.conj().T", ("gemm", "nc")),
        ("A.T.conj() @ B", ("gemm", "cn")),
        ("A.mT @ x", ("gemv", "tn")),
        ("x @ y", ("dot", "nn")),
        ("A[::-1] @ B", None),
        ("A @ B @ x", None),
        ("B @ A", None),
        ("A @ A", None),
    ],
)
def test_plain_products_are_cells(text: str, cell: tuple[str, str] | None) -> None:
    assert parse(text, "cblas").as_cell() == cell


def test_each_adapter_has_its_own_functions() -> None:
    assert parse("torch.addmm(A, A, B, beta=0.5, alpha=-2)", "torch").names == ("A", "B")
    assert parse("sgemm(1.0, A, B, trans_b=1)", "scipy").names == ("A", "B")
    assert parse("jnp.dot(x, y)", "jax").names == ("x", "y")
    assert parse("mx.matmul(P, Q)", "mlx").names == ("P", "Q")
    with pytest.raises(ExpressionError, match="functions with this backend: none"):
        parse("np.dot(A, B)", "cblas")
    with pytest.raises(ExpressionError, match="is none of"):
        parse("A @ B", "fortran")
