"""Shared libraries: what the objects in wheels need, and what provides it."""
