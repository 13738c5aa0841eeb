"""Records: everything that could have changed the result of one run, and digests of the result."""
