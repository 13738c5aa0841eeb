"""Runs as one HTML page: curves, tensors, causes."""
