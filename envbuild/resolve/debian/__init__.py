"""Debian packages: from the names a spec asks for to every package by version and SHA-256."""
