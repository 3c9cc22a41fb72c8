"""What really ran under an expression, and how we know: docs/evidence.md explains the marks.

`evidence.observe` is the core: it runs one product under the tracers and returns one record.
"""
