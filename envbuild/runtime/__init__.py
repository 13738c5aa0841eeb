"""Everything that is copied into an image: standard library only, Python 3.9 or newer."""
