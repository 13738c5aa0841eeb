"""Why runs differ: evidence from records and sources, ranked, and what experiments prove."""
