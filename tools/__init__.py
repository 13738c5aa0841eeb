"""Programs of this repository that refresh tables and write reference pages; not part of the wheel."""
