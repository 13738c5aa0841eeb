"""Declared input data: digested to the byte, compared before a run, differences named. Described in docs/inputs.md."""
