"""One module per framework: what is seeded and switched right after the program imported it."""
