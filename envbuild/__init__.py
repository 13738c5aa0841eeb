"""envbuild: machine-learning training that repeats to the last bit, or refuses to start and says why."""

__version__ = "0.1.0"
