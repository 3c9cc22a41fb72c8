"""How each line of the lesson's table can be seen: what it needs, and the commands to type."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgrid.records import commands


@dataclass(frozen=True)
class Way:
    """needs: what the machine must have; expr: in the language of `explain`; study: of
    config/studies, whose grid has cells of this line; counter: an expression, dtype and shape under
    which the lesson's line does not hold."""

    needs: str
    backend: str
    expr: str
    study: str
    dtype: str = "float32"
    counter: tuple[str, str, str] | None = None


NVIDIA = "an NVIDIA GPU"
APPLE = "a Mac with Apple silicon"
WAYS = {
    "numpy-dot": Way(
        "NumPy",
        "numpy-openblas",
        "np.dot(x, y)",
        "levels",
        counter=("x[::-1] @ y", "float32", "5000"),
    ),
    "numpy-gemv": Way(
        "NumPy",
        "numpy-openblas",
        "np.dot(A, x)",
        "levels",
        counter=("A @ x[::-1]", "float32", "512"),
    ),
    "numpy-gemm": Way(
        "NumPy", "numpy-openblas", "A @ B", "levels", counter=("A @ A.T", "float32", "512")
    ),
    "torch-cuda-float32": Way(NVIDIA, "torch-cuda", "A @ B", "exercise"),
    "torch-cuda-half": Way(NVIDIA, "torch-cuda", "A @ B", "precision", "float16"),
    "torch-mps": Way(APPLE, "torch-mps", "A @ B", "exercise"),
    "mlx-metal": Way(APPLE, "mlx-gpu", "A @ B", "exercise"),
    "scipy-sgemm": Way(
        "SciPy",
        "scipy-openblas",
        "sgemm(1.0, B.T, A.T)",
        "levels",
        counter=("sgemm(alpha=1.0, a=A, b=B)", "float32", "512"),
    ),
}
"""By the line's id."""


def explain(way: Way, deploy: str | None) -> str:
    """Shows in the terminal what runs under the line's expression."""
    return _explain(way.backend, way.expr, way.dtype, "512", deploy)


def explain_counter(way: Way, deploy: str | None) -> str | None:
    """Shows an expression for which the line does not hold, if there is one to show."""
    return _explain(way.backend, *way.counter, deploy) if way.counter else None


def measure(way: Way, deploy: str | None) -> str:
    """Measures cells of the line, so that they stand in the report."""
    study = [f"config/studies/{way.study}.yaml"]
    config = [f"backends={way.backend}"]
    return commands.text(commands.words(deploy=deploy, configfiles=study, config=config))


def _explain(backend: str, expr: str, dtype: str, shape: str, deploy: str | None) -> str:
    config = [f"expr={expr}", f"backend={backend}", f"dtype={dtype}", f"shape={shape}"]
    return commands.text(commands.words(["explain"], deploy=deploy, config=config))
