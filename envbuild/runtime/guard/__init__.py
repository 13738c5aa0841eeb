"""The guard: compares what the lock promises with what is really there, before any user code runs."""
