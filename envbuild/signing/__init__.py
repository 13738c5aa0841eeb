"""Signatures and provenance of images: cosign as a program of its own, and the statement that it signs.

Nothing here knows registries, stores or engines: cosign talks to the registry, the command line hands over values.
"""
