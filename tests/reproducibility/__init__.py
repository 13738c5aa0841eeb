"""One digest everywhere, proven: one lock, built on each engine in all kinds of surroundings (make reproducibility)."""
