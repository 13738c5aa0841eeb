"""Declared input data: digested to the byte, compared before a run, differences named: docs/how-to/input-data.md."""
