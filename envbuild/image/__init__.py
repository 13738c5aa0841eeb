"""Images: planned, assembled and described."""
