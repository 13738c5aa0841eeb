"""Step traces: the format that the hook writes, the values in it, and where two traces differ first."""
