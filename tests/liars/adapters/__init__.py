"""Adapters that lie, each in one way; `tests/liars/test_liars.py` says how each is found out."""
