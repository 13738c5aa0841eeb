"""Signatures and provenance of images: cosign as a separate program, and the statement that it signs.

Nothing here knows registries, stores or engines: cosign talks to the registry, the command line passes values.
"""
