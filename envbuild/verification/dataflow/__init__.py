"""What the sources of a program show of a value: whether it may come from a clock, or was drawn."""
