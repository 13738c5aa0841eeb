"""Wheels built from source: archives of sources, the sandboxed build step, and the canonical form of its wheels."""
