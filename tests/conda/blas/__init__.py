"""Four BLAS libraries under one NumPy, through conda environments: `make test-blas`.

NumPy is built once against the generic libblas.so.3, as conda-forge builds it, and each environment
brings another libblas: OpenBLAS, BLIS and Netlib's reference from Debian's packages, MKL from its
wheel. conda is the test double (tests/conda/double); the libraries and what they do are real.
"""
