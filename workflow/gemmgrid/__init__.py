"""gemmgrid: how fast matrix multiplication really is, from Python."""

__version__ = "0.1.0"
