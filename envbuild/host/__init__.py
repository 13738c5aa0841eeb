"""This machine: described, compared, diagnosed."""
