"""Resolution: a spec becomes a lock."""
