"""A standalone build of CPython as a layer."""
