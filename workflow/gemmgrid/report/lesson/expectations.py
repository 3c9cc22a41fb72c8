"""What the lesson "Calling BLAS from Python" says an expression calls: expectation, not evidence.

Its table names sdot/ddot, sgemv/dgemv and sgemm/dgemm for NumPy, cublasSgemm and cublasGemmEx for
torch on CUDA, and MPSMatrixMultiplication for torch on MPS and for MLX; its code calls sgemm of
SciPy. For everything else it says nothing, and neither does this.
"""

from __future__ import annotations

_PREFIX = {"float32": "s", "float64": "d"}
EXERCISE_SIZE = 4096
"""The lesson's exercise: a 4096³ product in float32."""


def expected(adapter: str | None, device: str | None, routine: str, dtype: str) -> str | None:
    """The routine that the lesson names for this call, or None where it names none."""
    if adapter in ("numpy", "scipy") and dtype in _PREFIX:
        return _PREFIX[dtype] + routine
    if routine != "gemm":
        return None
    if adapter == "torch" and device == "cuda":
        named = {"float32": "cublasSgemm", "float16": "cublasGemmEx", "bfloat16": "cublasGemmEx"}
        return named.get(dtype)
    if (adapter == "torch" and device == "mps") or (adapter == "mlx" and device == "gpu"):
        return "MPSMatrixMultiplication"
    return None
