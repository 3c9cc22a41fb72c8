"""Bundles: one machine's results in one file, to be sent to someone else and merged there."""
