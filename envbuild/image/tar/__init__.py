"""Layer archives: a tar writer whose bytes depend on the entries alone."""
