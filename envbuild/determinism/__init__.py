"""Determinism as data: environment variables and switches by framework and version, and refused operations."""
