"""The run stage: one program in one locked image, and a record of it."""
