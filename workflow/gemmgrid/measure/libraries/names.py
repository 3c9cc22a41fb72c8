"""How builds of BLAS spell things: the affixes of their functions' names, the names of their files.

`scipy_cblas_sgemm64_` is the C interface of sgemm with 64-bit integers in the OpenBLAS of SciPy's
wheels; builds elsewhere say `cblas_sgemm64_`, `sgemm_64_`, Apple `cblas_sgemm$NEWLAPACK$ILP64`.
"""

from __future__ import annotations

import re

PREFIXES = ("", "scipy_")
CBLAS_SPELLINGS = (
    ("", "$NEWLAPACK", "lp64"),
    ("", "", None),
    ("scipy_", "", None),
    ("", "$NEWLAPACK$ILP64", "ilp64"),
    ("", "64_", "ilp64"),
    ("scipy_", "64_", "ilp64"),
    ("", "_64", "ilp64"),
)
"""Prefix, suffix, and the width of integers that it says (None: the library may tell)."""
CBLAS_SYMBOLS = tuple(f"{prefix}cblas_sgemm{suffix}" for prefix, suffix, _ in CBLAS_SPELLINGS)
FORTRAN_SYMBOLS = tuple(
    f"{prefix}sgemm{suffix}"
    for prefix in PREFIXES
    for suffix in ("_", "_64_", "64_", "$NEWLAPACK", "$NEWLAPACK$ILP64")
)
OWN_AFFIXES = tuple(
    (prefix, suffix) for prefix in PREFIXES for suffix in ("", "64_", "_64", "64", "_64_", "_")
)
"""Prefix and suffix of what a library's family adds to the standard: openblas_get_config64_ …"""

TRACED_PREFIX, TRACED_SUFFIX = "(?:scipy_|openblas_|flexiblas_)?", "(?:_?64_?|_|)"
"""The affixes as patterns, for names that are read and not looked up."""

_BLAS_FILE = re.compile(
    r"lib[^/]*(?:blas|blis|mkl_|atlas|lapack|flame|armpl|cublas|nvpl)[^/]*\.so[^/]*"
)


def is_blas_file(name: str) -> bool:
    """Whether a file's name says that it is a BLAS or LAPACK library (Linux)."""
    return _BLAS_FILE.fullmatch(name) is not None
