"""Ground values and helpers without a subject of their own: digests, whole files, text, progress."""
